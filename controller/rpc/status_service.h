#ifndef FARANDOLE_CONTROLLER_RPC_STATUS_SERVICE_H_
#define FARANDOLE_CONTROLLER_RPC_STATUS_SERVICE_H_

#include <grpcpp/completion_queue.h>

#include "base/completion_thread.h"
#include "controller/hub/hub.h"
#include "farandole/v1/status.grpc.pb.h"

namespace farandole::controller::rpc {

// The service of status.proto.
class StatusService final : public v1::Status::AsyncService {
 public:
  // `hub` outlives all calls.
  explicit StatusService(hub::Hub* hub) : hub_(hub) {}

  // Once, when the server has started; calls end in `thread`, whose queue is the server's.
  void Serve(grpc::ServerCompletionQueue* queue, CompletionThread* thread);

 private:
  hub::Hub* const hub_;
};

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_STATUS_SERVICE_H_
