#ifndef FARANDOLE_CONTROLLER_RPC_COORDINATION_SERVICE_H_
#define FARANDOLE_CONTROLLER_RPC_COORDINATION_SERVICE_H_

#include <grpcpp/completion_queue.h>

#include <atomic>
#include <cstdint>

#include "base/completion_thread.h"
#include "controller/hub/hub.h"
#include "controller/rpc/session_call.h"
#include "controller/rpc/unary_call.h"
#include "farandole/v1/coordination.grpc.pb.h"

namespace farandole::controller::rpc {

// The service of coordination.proto: turns calls into calls of the hub. Session works on raw bytes, which
// proto/codec/codec.h reads and writes.
class CoordinationService final
    : public v1::Coordination::WithRawMethod_Session<
          v1::Coordination::WithAsyncMethod_Put<v1::Coordination::WithAsyncMethod_Get<v1::Coordination::Service>>> {
 public:
  // `hub` outlives all calls.
  CoordinationService(hub::Hub* hub, SessionBounds bounds) : hub_(hub), bounds_(bounds) {}

  // Once, when the server has started; calls end in `thread`, whose queue is the server's.
  void Serve(grpc::ServerCompletionQueue* queue, CompletionThread* thread);

 private:
  using PutCall = UnaryCall<v1::PutRequest, v1::PutReply>;
  using GetCall = UnaryCall<v1::GetRequest, v1::GetReply>;

  void Put(const PutCall::Ref& call);
  // Waits in the hub until the key has a value or the caller gives up.
  void Get(const GetCall::Ref& call);

  hub::Hub* const hub_;
  const SessionBounds bounds_;
  std::atomic<uint64_t> next_get_{1};
};

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_COORDINATION_SERVICE_H_
