#ifndef FARANDOLE_CONTROLLER_RPC_STATUS_SERVICE_H_
#define FARANDOLE_CONTROLLER_RPC_STATUS_SERVICE_H_

#include <grpcpp/completion_queue.h>

#include <memory>

#include "base/completion_thread.h"
#include "controller/hub/hub.h"
#include "controller/rpc/call_count.h"
#include "controller/rpc/job_list.h"
#include "farandole/v1/status.grpc.pb.h"

namespace farandole::controller::rpc {

// The service of status.proto. So many calls of one job and its parts are under way at a time: kAsksOfJobMax that ask
// once, WatchCall::kOfJobMax that watch; further ones end with RESOURCE_EXHAUSTED.
class StatusService final : public v1::Status::AsyncService {
 public:
  static constexpr int kAsksOfJobMax = 16;
  static constexpr int kAsksMax = 1024;

  // `hub` outlives all calls.
  explicit StatusService(hub::Hub* hub) : hub_(hub), list_(std::make_shared<JobList>(hub)) {}

  // Once, when the server has started; calls end in `thread`, whose queue is the server's.
  void Serve(grpc::ServerCompletionQueue* queue, CompletionThread* thread);

 private:
  hub::Hub* const hub_;
  const std::shared_ptr<JobList> list_;
  const CallCount asks_{"calls that ask for the status", kAsksOfJobMax, kAsksMax};
};

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_STATUS_SERVICE_H_
