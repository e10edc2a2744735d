#include "base/address.h"

#include <arpa/inet.h>

#include <string>

#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"

namespace farandole {

absl::optional<HostAndPort> SplitAddress(absl::string_view address) {
  const size_t colon = address.rfind(':');
  if (colon == absl::string_view::npos) return absl::nullopt;
  absl::string_view host = address.substr(0, colon);
  const bool opened = absl::ConsumePrefix(&host, "[");
  if (opened != absl::ConsumeSuffix(&host, "]")) return absl::nullopt;
  return HostAndPort{std::string(host), std::string(address.substr(colon + 1))};
}

absl::string_view HostOf(absl::string_view address) {
  const size_t colon = address.rfind(':');
  return colon == absl::string_view::npos ? absl::string_view() : address.substr(0, colon);
}

std::string AddressOfPeer(absl::string_view peer) {
  const size_t scheme = peer.find(':');
  if (scheme == absl::string_view::npos) return "";
  return absl::StrReplaceAll(peer.substr(scheme + 1), {{"%5B", "["}, {"%5D", "]"}});
}

bool IsLoopback(absl::string_view address) {
  const std::string host(HostOf(address));
  in_addr ip4;
  if (inet_pton(AF_INET, host.c_str(), &ip4) == 1) return (ntohl(ip4.s_addr) >> 24) == 127;
  return host == "localhost" || host == "[::1]";
}

}  // namespace farandole
