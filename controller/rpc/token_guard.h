#ifndef FARANDOLE_CONTROLLER_RPC_TOKEN_GUARD_H_
#define FARANDOLE_CONTROLLER_RPC_TOKEN_GUARD_H_

#include <grpcpp/security/server_credentials.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "controller/rpc/tls_files.h"
#include "controller/token/controller_keys.h"

namespace farandole::controller::rpc {

// What a call shows before anything else of it is looked at.
struct CallIdentity {
  std::string path;           // "/farandole.v1.Coordination/Put"
  std::string job;            // metadata `farandole-job`
  std::string authorization;  // metadata `authorization`
  bool ambiguous = false;     // one of the two entries came more than once
  // The URIs of the client's certificate, where one has been wanted and checked.
  std::vector<std::string> certified = {};
};

inline constexpr char kJobMetadata[] = "farandole-job";

// May this call begin, at this moment in seconds since 1970? The tokens of a job hold for its parts, too, those of a
// namespace for all of its jobs.
// UNAUTHENTICATED: no token, a wrong one, one after its end, or an observer's where a member's is wanted.
// INVALID_ARGUMENT: malformed job name.
//
// Put and Get go on after the end of a member's token: they belong to the stream of an agent, which goes on as well,
// and a job that could not build its next communicator would end. Who has such a token alone does not come so far, as
// the door lets nobody in with it; and without a running job there is no generation for which they are good.
//
// `by_certificate`: clients need a certificate whose URIs name the job, too (kJobUri).
absl::Status CheckCall(const CallIdentity& call, const token::ControllerKeys& keys, int64_t now_s,
                       bool by_certificate = false);

// Whether this method is one of those that go on, of which a stream makes many.
bool BelongsToStream(absl::string_view path);

// Before the name of a job, NAMESPACE.* for those of a namespace, or * for all jobs, among the URIs of a certificate's
// subject alternative names.
inline constexpr char kJobUri[] = "farandole:job:";

// Health checks only; INVALID_ARGUMENT for everything else.
absl::Status CheckHealthCall(const CallIdentity& call);

using CallCheck = std::function<absl::Status(const CallIdentity&)>;

// Server credentials, with or without TLS, that run `check` in gRPC's transport security layer: a call that fails it
// ends there, before any service sees it, whatever service was asked for. (A server interceptor cannot do that: it can
// only cancel, and the handler has begun by then.) `check` is called from many threads at once. Each handshake takes
// what `tls` holds at the time; whether clients need a certificate is as it is now. What this returns outlives the
// server.
std::shared_ptr<grpc::ServerCredentials> GuardedCredentials(std::shared_ptr<const TlsRing> tls, CallCheck check);

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_TOKEN_GUARD_H_
