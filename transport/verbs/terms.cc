#include "transport/verbs/terms.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/auth.h"
#include "transport/verbs/message.h"

namespace farandole::transport::verbs {
namespace {

constexpr size_t kNonceBytes = 32;
// The last digit is the version of what is said over the queue pairs.
constexpr absl::string_view kMagic = "verbs1";
constexpr absl::string_view kReadyText = "R";
constexpr char kGoodbye = 'G';
constexpr uint32_t kNumberMax = 0xffffff;

struct WireEndpoint {
  uint32_t number;
  uint32_t first_packet;
  uint8_t gid[16];
  uint16_t lid;
  uint16_t mtu;
  uint8_t ethernet;
  uint8_t device;
  uint16_t unused;
};
static_assert(sizeof(WireEndpoint) == 32, "the wire format has no padding");

template <typename T>
void Append(std::string* out, const T& value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <typename T>
bool Take(absl::string_view* from, T* value) {
  if (from->size() < sizeof *value) return false;
  std::memcpy(value, from->data(), sizeof *value);
  from->remove_prefix(sizeof *value);
  return true;
}

absl::StatusOr<Endpoint> Check(const WireEndpoint& wire) {
  const bool mtu = wire.mtu >= 256 && wire.mtu <= 4096 && (wire.mtu & (wire.mtu - 1)) == 0;
  if (wire.number > kNumberMax || wire.first_packet > kNumberMax || !mtu || wire.ethernet > 1 ||
      wire.device >= kDevicesMax) {
    return absl::InvalidArgumentError("the peer describes a queue pair that cannot be");
  }
  Endpoint endpoint;
  endpoint.number = wire.number;
  endpoint.first_packet = wire.first_packet;
  std::memcpy(endpoint.gid.data(), wire.gid, sizeof wire.gid);
  endpoint.lid = wire.lid;
  endpoint.mtu = wire.mtu;
  endpoint.ethernet = wire.ethernet != 0;
  endpoint.device = wire.device;
  return endpoint;
}

}  // namespace

Terms MakeTerms(size_t eager_bytes, std::vector<Endpoint> endpoints) {
  return {RandomBytes(kNonceBytes), eager_bytes, std::move(endpoints)};
}

std::string EncodeTerms(const Terms& terms) {
  std::string out = absl::StrCat(kMagic, terms.nonce);
  Append(&out, static_cast<uint32_t>(terms.eager_bytes));
  for (const Endpoint& endpoint : terms.endpoints) {
    WireEndpoint wire{};
    wire.number = endpoint.number;
    wire.first_packet = endpoint.first_packet;
    std::memcpy(wire.gid, endpoint.gid.data(), sizeof wire.gid);
    wire.lid = endpoint.lid;
    wire.mtu = static_cast<uint16_t>(endpoint.mtu);
    wire.ethernet = endpoint.ethernet;
    wire.device = static_cast<uint8_t>(endpoint.device);
    Append(&out, wire);
  }
  return out;
}

absl::StatusOr<Terms> DecodeTerms(absl::string_view message) {
  Terms terms;
  if (message.substr(0, kMagic.size()) != kMagic || message.size() < kMagic.size() + kNonceBytes) {
    return absl::InvalidArgumentError("the peer is of a release that speaks another protocol");
  }
  terms.nonce = std::string(message.substr(kMagic.size(), kNonceBytes));
  message.remove_prefix(kMagic.size() + kNonceBytes);
  uint32_t eager_bytes = 0;
  if (!Take(&message, &eager_bytes) || eager_bytes < kEagerBytesMin || eager_bytes > kEagerBytesMax) {
    return absl::InvalidArgumentError("the peer's buffers have a size that cannot be");
  }
  terms.eager_bytes = eager_bytes;
  const size_t count = message.size() / sizeof(WireEndpoint);
  if (message.size() % sizeof(WireEndpoint) != 0 || count < 2 || count > kQueuePairsMax + 1) {
    return absl::InvalidArgumentError("the peer describes its queue pairs in a malformed way");
  }
  WireEndpoint wire;
  while (Take(&message, &wire)) {
    absl::StatusOr<Endpoint> endpoint = Check(wire);
    if (!endpoint.ok()) return endpoint.status();
    terms.endpoints.push_back(*endpoint);
  }
  return terms;
}

std::string TermsProof(absl::string_view key, absl::string_view own, absl::string_view peer) {
  // With both nonces inside, and the own ones first: what the peer has sent proves nothing when it is sent back.
  return HmacSha256(key, absl::StrCat("farandole verbs terms ", own.size(), " ", own, peer));
}

bool ProvesTerms(absl::string_view proof, absl::string_view key, absl::string_view own, absl::string_view peer) {
  return own != peer && EqualSecrets(proof, TermsProof(key, peer, own));
}

std::string ReadyMessage() { return std::string(kReadyText); }

bool IsReady(absl::string_view message) { return message == kReadyText; }

std::string EncodeGoodbye(uint64_t messages, uint64_t writes) {
  std::string out(1, kGoodbye);
  Append(&out, messages);
  Append(&out, writes);
  return out;
}

absl::StatusOr<Goodbye> DecodeGoodbye(absl::string_view message) {
  Goodbye goodbye;
  if (message.empty() || message[0] != kGoodbye ||
      message.size() != 1 + sizeof goodbye.messages + sizeof goodbye.writes) {
    return absl::InvalidArgumentError("the peer says something on the socket that is not goodbye");
  }
  message.remove_prefix(1);
  Take(&message, &goodbye.messages);
  Take(&message, &goodbye.writes);
  return goodbye;
}

}  // namespace farandole::transport::verbs
