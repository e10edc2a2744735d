#ifndef FARANDOLE_CONTROLLER_RPC_TOKEN_GUARD_H_
#define FARANDOLE_CONTROLLER_RPC_TOKEN_GUARD_H_

#include <grpcpp/security/server_credentials.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farandole::controller::rpc {

// What a call shows before anything else of it is looked at.
struct CallIdentity {
  std::string path;           // "/farandole.v1.Coordination/Put"
  std::string job;            // metadata `farandole-job`
  std::string authorization;  // metadata `authorization`
  bool ambiguous = false;     // one of the two entries came more than once
};

inline constexpr char kJobMetadata[] = "farandole-job";

// May this call go on? The tokens of a job hold for its parts, too. UNAUTHENTICATED: no token, a wrong one, or an
// observer's where a member's is wanted.
// INVALID_ARGUMENT: malformed job name.
absl::Status CheckCall(const CallIdentity& call, absl::string_view controller_key);

// Health checks only; INVALID_ARGUMENT for everything else.
absl::Status CheckHealthCall(const CallIdentity& call);

// A pair of PEM texts, both empty = no TLS.
struct TlsFiles {
  std::string certificate_chain;
  std::string private_key;
};

using CallCheck = std::function<absl::Status(const CallIdentity&)>;

// Server credentials, with or without TLS, that run `check` in gRPC's transport security layer: a call that fails it
// ends there, before any service sees it, whatever service was asked for. (A server interceptor cannot do that: it can
// only cancel, and the handler has begun by then.) `check` is called from many threads at once.
std::shared_ptr<grpc::ServerCredentials> GuardedCredentials(const TlsFiles& tls, CallCheck check);

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_TOKEN_GUARD_H_
