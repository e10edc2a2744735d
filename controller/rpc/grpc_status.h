#ifndef FARANDOLE_CONTROLLER_RPC_GRPC_STATUS_H_
#define FARANDOLE_CONTROLLER_RPC_GRPC_STATUS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_replace.h"
#include "controller/rpc/token_guard.h"

namespace farandole::controller::rpc {

inline grpc::Status ToGrpc(const absl::Status& status) {
  return grpc::Status(static_cast<grpc::StatusCode>(status.code()), std::string(status.message()));
}

// The job a call speaks for; the guard has let only calls with exactly one valid name through.
inline std::string JobOf(const grpc::ServerContext& context) {
  const auto it = context.client_metadata().find(kJobMetadata);
  return it == context.client_metadata().end() ? "" : std::string(it->second.data(), it->second.size());
}

// The address of the other end, without its port; "" if gRPC has none.
inline std::string AddressOf(const grpc::ServerContext& context) {
  // "ipv4:10.0.0.7:4711" or "ipv6:%5B::1%5D:4711".
  const std::string peer = absl::StrReplaceAll(context.peer(), {{"%5B", ""}, {"%5D", ""}});
  const size_t scheme = peer.find(':'), port = peer.rfind(':');
  return scheme < port ? peer.substr(scheme + 1, port - scheme - 1) : "";
}

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_GRPC_STATUS_H_
