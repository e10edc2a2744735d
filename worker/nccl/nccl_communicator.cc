#include "worker/nccl/nccl_communicator.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/start_thread.h"
#include "worker/cuda/cuda_stopwatch.h"
#include "worker/nccl/meeting.h"
#include "worker/os/log.h"

namespace farandole::worker::nccl {
namespace {

constexpr int64_t kCheckMs = 1;
// NCCL's initialisation reads files and connects all with all, and before it a driver may compile the kernels. Members
// that die meanwhile end both by an abort, so that a limit is for what nobody has thought of.
constexpr int64_t kSetupTimes = 10;
constexpr int64_t kInitMsPerRank = 500;
// What NCCL may take for a communicator; where it finds less it fails.
constexpr int64_t kNcclBytes = 1 << 30;
// What an abort may take.
constexpr int64_t kAbortMs = 30000;
// After it what a framework has put on its stream before, which may be a few long steps, or wait for a dead rank, too.
constexpr int64_t kBacklogMs = 300000;

// What is reduced by one call. Packing costs a small part of what NCCL saves by one call instead of many; but a call
// waits for the last of its tensors, which a backward that the host is ahead of still computes. DDP's buckets are as
// large.
constexpr int64_t kFusedBytesMax = 25 << 20;

TimePoint Now() { return Clock::Monotonic().Now(); }

}  // namespace

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Create(const collective::Group& group,
                                                                           collective::Bootstrap* bootstrap,
                                                                           cuda::CudaDevice* device,
                                                                           const Resources& resources) {
  std::unique_ptr<NcclCommunicator> communicator(new NcclCommunicator(group, bootstrap, device, resources));
  const absl::Status made = communicator->MakeSide();
  if (!made.ok()) return made;
  const absl::Status watched = resources.watch->Add(communicator.get());
  if (!watched.ok()) return watched;
  communicator->watched_ = true;
  return communicator;
}

NcclCommunicator::~NcclCommunicator() {
  bool waits;
  {
    absl::MutexLock lock(&mutex_);
    waits = !under_way_.empty();
  }
  if (waits) Fail(absl::AbortedError("the communicator is gone"));
  {
    absl::MutexLock lock(&mutex_);
    const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return under_way_.empty() && ending_ == 0; };
    mutex_.Await(absl::Condition(&over));
  }
  if (watched_) resources_.watch->Remove(this);
  AwaitAbort();
}

int64_t NcclCommunicator::FusedBytesMax(DeviceKind memory, device::Device* device) { return kFusedBytesMax; }

void NcclCommunicator::Start(const collective::Instance& instance, const collective::Collective& collective,
                             const Enqueued& enqueued, Done done) {
  absl::Status status = failure();
  if (status.ok()) status = AwaitReady();
  if (status.ok()) status = CheckDevice(collective.device);
  if (!status.ok()) {
    Fail(status);
    return done(failure());
  }
  const cuda::CudaDevice::Current current(device_);
  // When something is enqueued already, nobody could say without it when that has ended.
  absl::StatusOr<cuda::CudaDevice::SpareEvent> last = device_->TakeEvent();
  if (!last.ok()) {
    Fail(last.status());
    return done(failure());
  }
  UnderWay one;
  if (collective.phases != nullptr) {
    one.kept.stopwatch = std::make_unique<cuda::CudaStopwatch>(device_, side_->comm().stream());
  }
  status = side_->WaitFor(collective.ready);
  absl::StatusOr<std::shared_ptr<const cuda::CudaEvent>> begin = device_->RecordEvent(side_->comm().stream());
  if (status.ok()) status = begin.status();
  if (status.ok()) status = side_->Enqueue(collective, &one.kept);
  const absl::StatusOr<std::shared_ptr<const cuda::CudaEvent>> end =
      device_->RecordEvent(side_->comm().stream(), *std::move(last));
  if (status.ok()) status = end.status();
  if (!status.ok()) Fail(status);
  // Nobody can tell any more when the device is done with the memory.
  if (!end.ok()) return done(failure());
  if (status.ok()) enqueued(*end);
  one.moments = {begin.ok() ? *std::move(begin) : *end, *end, Now().PlusMs(group_.op_timeout_ms),
                 Now().PlusMs(resources_.long_ms)};
  one.done = std::move(done);
  one.phases = collective.phases;
  {
    absl::MutexLock lock(&mutex_);
    under_way_.push_back(std::move(one));
  }
  resources_.watch->Wake();
}

absl::Status NcclCommunicator::CheckDevice(const device::Device* device) const {
  if (device == nullptr || device == device_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("this process has used ", device_->name(), " and now uses GPU ",
                                                    device->ordinal(),
                                                    " in one process set; use one GPU, or a process set for each"));
}

absl::Status NcclCommunicator::MakeSide() {
  absl::StatusOr<const kernels::Kernels*> kernels = nullptr;
  if (device_ != nullptr) kernels = resources_.kernels(device_);
  collective::Group patient = group_;
  patient.setup_timeout_ms =
      static_cast<uint32_t>(std::min<int64_t>(kSetupTimes * group_.setup_timeout_ms, UINT32_MAX));
  const TimePoint deadline = Now().PlusMs(patient.setup_timeout_ms);
  const Guest guest{resources_.library, device_, kernels.status(), resources_.shares_devices, resources_.host_id};
  const absl::StatusOr<cuda::ncclUniqueId> id = Meet(patient, "nccl", guest, bootstrap_, deadline);
  if (!id.ok()) return id.status();
  // Each as long as it takes, within the limit of the initialisation.
  device_->MakeRoom(kNcclBytes);
  absl::StatusOr<std::unique_ptr<Comm>> comm =
      Comm::Start({resources_.library, device_, group_.op_timeout_ms}, {size(), position(), *id});
  // UNAVAILABLE would be taken for an answer of all.
  if (!comm.ok()) return absl::FailedPreconditionError(comm.status().message());
  side_ = std::make_unique<Side>(*std::move(comm), *kernels, size(), position());
  return absl::OkStatus();
}

absl::Status NcclCommunicator::AwaitReady() {
  if (side_->ready()) return absl::OkStatus();
  const int64_t limit_ms = kSetupTimes * group_.setup_timeout_ms + kInitMsPerRank * size();
  const TimePoint deadline = Now().PlusMs(limit_ms);
  bool told = false;
  return side_->AwaitReady([this, limit_ms, deadline, told, tell = Now().PlusMs(group_.setup_timeout_ms)]() mutable {
    absl::Status go_on = failure();
    if (!told && tell < Now()) {
      told = true;
      os::Log(os::LogLevel::kWarning, absl::StrCat("NCCL has initialised itself among ", size(), " ranks for ",
                                                   group_.setup_timeout_ms / 1000.0, " s; it has ", limit_ms / 1000.0,
                                                   " s. NCCL_DEBUG=INFO says how far it came"));
    }
    if (go_on.ok() && deadline < Now()) {
      go_on = absl::DeadlineExceededError(absl::StrCat(
          "the initialisation of NCCL among ", size(), " ranks did not end within ", limit_ms / 1000.0,
          " s; NCCL_DEBUG=INFO says how far it came, FARANDOLE_START_TIMEOUT (--start-timeout) gives it more time"));
    }
    return go_on;
  });
}

void NcclCommunicator::Abort(const std::string& reason) { Fail(absl::AbortedError(reason)); }

void NcclCommunicator::Fail(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (failure_.ok()) {
      failure_ = status;
      BeginAbort();
    }
  }
  resources_.watch->Wake();
}

absl::Status NcclCommunicator::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

Watch::Seen NcclCommunicator::Look() {
  const TimePoint now = Now();
  const bool failed = !failure().ok();
  if (failed) AbortHere();
  const bool ended = EndFinished();
  if (!failed) CheckHealth(now);
  absl::MutexLock lock(&mutex_);
  if (ended) return Watch::Seen::kEnded;
  return under_way_.empty() && (failure_.ok() || aborting_ != nullptr) ? Watch::Seen::kNothing : Watch::Seen::kWaits;
}

bool NcclCommunicator::BeginAbort() {
  const auto aborting = std::make_shared<Aborting>();
  auto abort = [side = side_, aborting, reason = std::string(failure_.message())]() mutable {
    side->comm().Abort(reason);
    side.reset();
    aborting->over.Notify();
  };
  absl::StatusOr<std::thread> thread = StartThread("farandole-abort", std::move(abort));
  if (!thread.ok()) return false;
  aborting_ = aborting;
  // Nobody can wait for one that NCCL does not end.
  thread->detach();
  return true;
}

void NcclCommunicator::AbortHere() {
  const auto aborting = std::make_shared<Aborting>();
  {
    absl::MutexLock lock(&mutex_);
    if (aborting_ != nullptr || BeginAbort()) return;
  }
  side_->comm().Abort(std::string(failure().message()));
  aborting->over.Notify();
  absl::MutexLock lock(&mutex_);
  aborting_ = aborting;
}

void NcclCommunicator::AwaitAbort() {
  std::shared_ptr<Aborting> aborting;
  {
    absl::MutexLock lock(&mutex_);
    aborting = aborting_;
  }
  if (aborting == nullptr || aborting->over.WaitForNotificationWithTimeout(absl::Milliseconds(kAbortMs))) return;
  os::Log(os::LogLevel::kError, absl::StrCat("ncclCommAbort has not returned for ", kAbortMs / 1000,
                                             " s; its communicator and its memory on the device are left to it"));
}

bool NcclCommunicator::EndFinished() {
  bool ended = false;
  for (;; ended = true) {
    Moments first;
    {
      absl::MutexLock lock(&mutex_);
      if (under_way_.empty()) return ended;
      first = under_way_.front().moments;
    }
    // Without the lock: the driver may take its time, and Abort does not wait.
    if (!Finished(first)) return ended;
    first_until_.reset();
    begun_since_.reset();
    UnderWay one;
    absl::Status outcome;
    {
      absl::MutexLock lock(&mutex_);
      one = std::move(under_way_.front());
      under_way_.pop_front();
      outcome = failure_;
      ++ending_;
    }
    if (one.kept.stopwatch != nullptr && outcome.ok()) *one.phases = one.kept.stopwatch->Read();
    one.kept = {};
    one.done(outcome);
    absl::MutexLock lock(&mutex_);
    --ending_;
  }
}

bool NcclCommunicator::Finished(const Moments& first) {
  const absl::StatusOr<bool> reached = first.end->Reached();
  if (!reached.ok()) {
    Fail(reached.status());
    return true;
  }
  if (*reached || lost_) return true;
  std::shared_ptr<Aborting> aborting;
  {
    absl::MutexLock lock(&mutex_);
    aborting = aborting_;
  }
  if (aborting != nullptr && IsStuck(first, *aborting)) {
    // The kernel may write when the memory is somebody else's.
    const absl::Status lost = device_->Lost("does not end a collective of NCCL that was aborted");
    os::Log(os::LogLevel::kError, absl::StrCat(lost.message(), ": ", failure().message()));
    lost_ = true;
    return true;
  }
  TellIfLong(first);
  if (first.deadline < Now()) {
    Fail(absl::DeadlineExceededError(absl::StrCat("a collective on ", device_->name(), " has taken longer than ",
                                                  group_.op_timeout_ms / 1000, " s (FARANDOLE_OP_TIMEOUT_SECONDS)")));
  }
  return false;
}

void NcclCommunicator::TellIfLong(const Moments& first) {
  const TimePoint now = Now();
  if (now < first.is_long || !failure().ok()) return;
  // What the script has put on its stream before is no matter of NCCL's.
  const absl::StatusOr<bool> begun = first.begin->Reached();
  TimePoint next = now.PlusMs(resources_.long_ms);
  if (begun.ok() && *begun && begun_since_.has_value()) {
    os::Log(os::LogLevel::kWarning,
            absl::StrCat("a collective of ", size(), " ranks has been at work on ", device_->name(), " for more than ",
                         now.MsSince(*begun_since_) / 1000,
                         " s: all ranks have submitted it, and NCCL does not end it. If it never does, NCCL_DEBUG=INFO "
                         "says how ranks are connected; docs/gpus.md, \"When NCCL stands still\", what to try"));
    next = TimePoint::Infinite();
  } else if (begun.ok() && *begun) {
    begun_since_ = now;
  }
  absl::MutexLock lock(&mutex_);
  if (!under_way_.empty()) under_way_.front().moments.is_long = next;
}

bool NcclCommunicator::IsStuck(const Moments& first, const Aborting& aborting) {
  const TimePoint now = Now();
  if (first_until_) return *first_until_ < now;
  // NCCL may wait for the device to free its memory, and so for what is before the collective.
  const absl::StatusOr<bool> begun = first.begin->Reached();
  const bool may_run = !begun.ok() || *begun || aborting.began.PlusMs(kBacklogMs) < now;
  const bool aborted = aborting.over.HasBeenNotified() || aborting.began.PlusMs(kAbortMs) < now;
  if (may_run && aborted) first_until_ = now.PlusMs(resources_.aborted_ms);
  return false;
}

void NcclCommunicator::CheckHealth(TimePoint now) {
  if (now < next_check_ || !side_->ready()) return;
  next_check_ = now.PlusMs(kCheckMs);
  {
    absl::MutexLock lock(&mutex_);
    if (under_way_.empty()) return;
  }
  const absl::Status health = side_->comm().CheckHealth();
  if (!health.ok()) Fail(health);
}

}  // namespace farandole::worker::nccl
