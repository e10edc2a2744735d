#include "controller/rpc/watch_call.h"

#include <grpc/support/time.h>

#include <algorithm>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "controller/rpc/grpc_status.h"
#include "controller/rpc/status_proto.h"
#include "farandole/v1/status.grpc.pb.h"

namespace farandole::controller::rpc {
namespace {

// What was told names waits: their age is news.
constexpr int64_t kWaitsMs = 1000;
// So many ranks may be told of in a millisecond.
constexpr int64_t kRanksPerMs = 10;

}  // namespace

void WatchCall::Serve(const Request& request, hub::Hub* hub, CompletionThread* thread) {
  ServeNext(request, hub, thread, CallCount("watches", kOfJobMax, kAllMax));
}

void WatchCall::ServeNext(const Request& request, hub::Hub* hub, CompletionThread* thread, const CallCount& watches) {
  auto call = std::make_shared<WatchCall>(hub, thread, watches);
  call->context_.AsyncNotifyWhenDone(call->done_step_.Arm([call](bool) { call->OnDone(); }));
  request(&call->context_, &call->request_, &call->writer_, call->open_step_.Arm([=](bool ok) {
    // The server shuts down; of a call that never was gRPC does not tell the end.
    if (!ok) return call->done_step_.Disarm();
    ServeNext(request, hub, thread, watches);
    thread->Hold();  // until it has finished
    call->Begin();
  }));
}

void WatchCall::Begin() {
  job_ = JobOf(context_);
  const uint32_t per_second = request_.per_second_max() == 0 ? 1 : request_.per_second_max();
  if (per_second > kPerSecondMax) {
    return Finish(grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                               absl::StrCat("at most ", kPerSecondMax, " per second may be watched")));
  }
  absl::StatusOr<CallCount::Permit> permit = watches_.Take(job_);
  if (!permit.ok()) return Finish(ToGrpc(permit.status()));
  permit_ = *std::move(permit);
  interval_ms_ = 1000 / per_second;
  Look();
}

void WatchCall::Look() {
  hub_->strand().Post([self = shared_from_this()] { self->LookNow(); });
}

void WatchCall::LookNow() {
  const absl::StatusOr<uint64_t> change = hub_->Changes(job_);
  if (!change.ok()) return Finish(ToGrpc(change.status()));
  const TimePoint now = hub_->Now();
  const bool aged = told_.waits_size() > 0 && now.MsSince(told_at_) >= kWaitsMs;
  if (*change == told_change_ && !aged) return Sleep();
  const absl::StatusOr<JobStatus> status = hub_->Status(job_);
  if (!status.ok()) return Finish(ToGrpc(status.status()));
  told_.Clear();
  ToProto(*status, &told_);
  told_change_ = *change;
  told_at_ = now;
  writer_.Write(told_, write_step_.Arm([self = shared_from_this()](bool ok) {
    if (ok) return self->Sleep();
    self->Finish(grpc::Status::CANCELLED);
  }));
}

void WatchCall::Sleep() {
  const int64_t ms = std::max<int64_t>(interval_ms_, told_.members_size() / kRanksPerMs);
  const gpr_timespec when = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(ms, GPR_TIMESPAN));
  bool gone;
  {
    absl::MutexLock lock(&mutex_);
    gone = gone_;
    if (!gone) {
      alarm_.Set(thread_->queue(), when, alarm_step_.Arm([self = shared_from_this()](bool ok) {
        if (ok) return self->Look();
        self->Finish(grpc::Status::CANCELLED);
      }));
    }
  }
  if (gone) Finish(grpc::Status::CANCELLED);
}

void WatchCall::OnDone() {
  absl::MutexLock lock(&mutex_);
  gone_ = true;
  alarm_.Cancel();
}

void WatchCall::Finish(const grpc::Status& status) {
  writer_.Finish(status, finish_step_.Arm([self = shared_from_this()](bool) {}));
  thread_->Release();
}

}  // namespace farandole::controller::rpc
