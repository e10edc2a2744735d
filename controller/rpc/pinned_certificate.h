#ifndef FARANDOLE_CONTROLLER_RPC_PINNED_CERTIFICATE_H_
#define FARANDOLE_CONTROLLER_RPC_PINNED_CERTIFICATE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole::controller::rpc {

struct PinnedCertificate {
  std::string certificate;  // PEM
  std::string private_key;  // PEM
};

// A certificate that signs itself, for a controller whose agents are handed that certificate as the only one that they
// trust. It follows from the controller key alone (Ed25519, whose seed is an HMAC of the key; all else is fixed): each
// life of the controller has the same, and whoever holds the key can make it without having been told. It is for the
// name kPinnedTlsName (base/tls_name.h), not for an address. INTERNAL: OpenSSL refuses.
absl::StatusOr<PinnedCertificate> MakePinnedCertificate(absl::string_view controller_key);

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_PINNED_CERTIFICATE_H_
