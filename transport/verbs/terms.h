#ifndef FARANDOLE_TRANSPORT_VERBS_TERMS_H_
#define FARANDOLE_TRANSPORT_VERBS_TERMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/verbs/endpoint.h"

// What two ends tell each other over the socket on which they have proved who they are, as messages without I/O:
//
//   Terms: nonce, eager bytes, endpoints   both ways
//   Proof: MAC over both Terms             both ways; the peer's are not used before
//   Ready                                  both ways, when the queue pairs are connected and have buffers
//   Goodbye: what the peer gets still      when an end closes the channel
namespace farandole::transport::verbs {

inline constexpr size_t kEagerBytesMin = 64;
inline constexpr size_t kEagerBytesMax = 1 << 20;

struct Terms {
  std::string nonce;
  size_t eager_bytes = 0;
  std::vector<Endpoint> endpoints;
};

Terms MakeTerms(size_t eager_bytes, std::vector<Endpoint> endpoints);
std::string EncodeTerms(const Terms& terms);
// INVALID_ARGUMENT: malformed, or a number out of its bounds.
absl::StatusOr<Terms> DecodeTerms(absl::string_view message);

// Of the end whose Terms are `own`, encoded.
std::string TermsProof(absl::string_view key, absl::string_view own, absl::string_view peer);
// True if the peer, whose Terms are `peer`, knows the key and has got `own`.
bool ProvesTerms(absl::string_view proof, absl::string_view key, absl::string_view own, absl::string_view peer);

std::string ReadyMessage();
bool IsReady(absl::string_view message);

// What an end has sent in all, of which nothing was lost: messages, and parts of large sends.
struct Goodbye {
  uint64_t messages = 0;
  uint64_t writes = 0;
};
std::string EncodeGoodbye(uint64_t messages, uint64_t writes = 0);
absl::StatusOr<Goodbye> DecodeGoodbye(absl::string_view message);

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_TERMS_H_
