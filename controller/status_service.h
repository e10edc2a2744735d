#ifndef FARANDOLE_CONTROLLER_STATUS_SERVICE_H_
#define FARANDOLE_CONTROLLER_STATUS_SERVICE_H_

#include <grpcpp/completion_queue.h>

#include "base/completion_thread.h"
#include "controller/hub.h"
#include "farandole/v1/status.grpc.pb.h"

namespace farandole {

// The service of status.proto.
class StatusService final : public v1::Status::AsyncService {
 public:
  // `hub` outlives all calls.
  explicit StatusService(Hub* hub) : hub_(hub) {}

  // Once, when the server has started; calls end in `thread`, whose queue is the server's.
  void Serve(grpc::ServerCompletionQueue* queue, CompletionThread* thread);

 private:
  Hub* const hub_;
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_STATUS_SERVICE_H_
