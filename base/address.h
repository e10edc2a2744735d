#ifndef FARANDOLE_BASE_ADDRESS_H_
#define FARANDOLE_BASE_ADDRESS_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace farandole {

// The two parts of an address as people write it; the host without brackets.
struct HostAndPort {
  std::string host;
  std::string port;
};
// Of HOST:PORT or [HOST]:PORT. Nullopt: no colon, or one bracket without the other.
absl::optional<HostAndPort> SplitAddress(absl::string_view address);

// HOST of HOST:PORT, brackets kept; empty if there is no colon.
absl::string_view HostOf(absl::string_view address);

// HOST:PORT of an end as gRPC writes it: "ipv4:10.0.0.7:4711", or "ipv6:%5B::1%5D:4711". What has no scheme is empty;
// what is behind another one is no address either.
std::string AddressOfPeer(absl::string_view peer);

// True for 127.0.0.0/8, ::1 and localhost, which the kernel does not route beyond the host; any other name may lead
// elsewhere. `address` is HOST:PORT or [HOST]:PORT.
bool IsLoopback(absl::string_view address);

}  // namespace farandole

#endif  // FARANDOLE_BASE_ADDRESS_H_
