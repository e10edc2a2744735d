#ifndef FARANDOLE_CONTROLLER_RPC_WATCH_CALL_H_
#define FARANDOLE_CONTROLLER_RPC_WATCH_CALL_H_

#include <grpcpp/alarm.h>
#include <grpcpp/server_context.h>
#include <grpcpp/support/async_stream.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/call_step.h"
#include "controller/hub/hub.h"
#include "controller/rpc/call_count.h"
#include "farandole/v1/status.pb.h"

namespace farandole::controller::rpc {

// One Watch call: looks at the job as often as it may tell, and tells when something has changed.
//
//   waiting --a call comes--> looking --nothing new--> sleeping --alarm--> looking
//                                     --new--> writing --written--> sleeping
//   any --job over, caller gone, server shuts down--> finished
//
// Exactly one of these steps is under way; looking takes place on the hub's strand, the others end in the completion
// thread. Kept alive by its steps.
class WatchCall final : public std::enable_shared_from_this<WatchCall> {
 public:
  using Writer = grpc::ServerAsyncWriter<v1::JobStatus>;
  // Asks gRPC for the next call.
  using Request = std::function<void(grpc::ServerContext*, v1::WatchRequest*, Writer*, void* tag)>;
  static constexpr uint32_t kPerSecondMax = 10;
  // Of one job and its parts, and in all, at a time.
  static constexpr int kOfJobMax = 16;
  static constexpr int kAllMax = 64;

  // Serves calls, one after the other, until the server shuts down. `hub` outlives all of them.
  static void Serve(const Request& request, hub::Hub* hub, CompletionThread* thread);

  WatchCall(hub::Hub* hub, CompletionThread* thread, const CallCount& watches)
      : hub_(hub),
        thread_(thread),
        watches_(watches),
        writer_(&context_),
        open_step_(thread),
        done_step_(thread),
        alarm_step_(thread),
        write_step_(thread),
        finish_step_(thread) {}

 private:
  static void ServeNext(const Request& request, hub::Hub* hub, CompletionThread* thread, const CallCount& watches);
  void Begin();
  void Look();
  // On the strand.
  void LookNow();
  void Sleep();
  void OnDone();
  void Finish(const grpc::Status& status);

  hub::Hub* const hub_;
  CompletionThread* const thread_;
  const CallCount watches_;
  CallCount::Permit permit_;
  grpc::ServerContext context_;
  v1::WatchRequest request_;
  Writer writer_;
  CallStep open_step_, done_step_, alarm_step_, write_step_, finish_step_;
  std::string job_;
  int64_t interval_ms_ = 1000;
  v1::JobStatus told_;
  uint64_t told_change_ = 0;  // 0 = nothing yet
  TimePoint told_at_;

  absl::Mutex mutex_;
  grpc::Alarm alarm_ ABSL_GUARDED_BY(mutex_);
  bool gone_ ABSL_GUARDED_BY(mutex_) = false;  // the caller
};

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_WATCH_CALL_H_
