#ifndef FARANDOLE_CONTROLLER_RPC_GRPC_STATUS_H_
#define FARANDOLE_CONTROLLER_RPC_GRPC_STATUS_H_

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <string>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "base/address.h"
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
  const absl::optional<HostAndPort> address = SplitAddress(AddressOfPeer(context.peer()));
  return address ? address->host : "";
}

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_GRPC_STATUS_H_
