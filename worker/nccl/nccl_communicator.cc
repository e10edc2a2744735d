#include "worker/nccl/nccl_communicator.h"

#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/nccl/meeting.h"
#include "worker/os/log.h"

namespace farandole::worker::nccl {
namespace {

constexpr int64_t kCheckMs = 1;
// What an aborted kernel may take to leave its device: NCCL's look at a flag in host memory.
constexpr int64_t kGiveUpMs = 10000;

TimePoint Now() { return Clock::Monotonic().Now(); }

}  // namespace

absl::StatusOr<std::unique_ptr<NcclCommunicator>> NcclCommunicator::Create(const collective::Group& group,
                                                                           collective::Bootstrap* bootstrap,
                                                                           cuda::CudaDevice* device,
                                                                           const Resources& resources) {
  std::unique_ptr<NcclCommunicator> communicator(new NcclCommunicator(group, bootstrap, resources));
  const absl::StatusOr<Side*> side = communicator->SideOf(device);
  if (!side.ok()) return side.status();
  const absl::Status watched = resources.watch->Add(communicator.get());
  if (!watched.ok()) return watched;
  communicator->watched_ = true;
  return communicator;
}

NcclCommunicator::~NcclCommunicator() {
  {
    absl::MutexLock lock(&mutex_);
    if (!under_way_.empty() && failure_.ok()) failure_ = absl::AbortedError("the communicator is gone");
  }
  resources_.watch->Wake();
  {
    absl::MutexLock lock(&mutex_);
    const auto over = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return under_way_.empty() && ending_ == 0; };
    mutex_.Await(absl::Condition(&over));
  }
  if (watched_) resources_.watch->Remove(this);
}

int64_t NcclCommunicator::FusedBytesMax(DeviceKind memory, device::Device* device) {
  // Packing costs a small part of what NCCL saves by one call instead of many.
  return INT64_MAX;
}

void NcclCommunicator::Start(const collective::Instance& instance, const collective::Collective& collective,
                             const Enqueued& enqueued, Done done) {
  const absl::Status failed = failure();
  if (!failed.ok()) return done(failed);
  const absl::StatusOr<Side*> side = ReadySideOf(static_cast<cuda::CudaDevice*>(collective.device));
  if (!side.ok()) {
    Fail(side.status());
    return done(failure());
  }
  cuda::CudaDevice* const device = (*side)->device();
  const cuda::CudaDevice::Current current(device);
  UnderWay one;
  absl::Status status = (*side)->WaitFor(collective.ready);
  if (status.ok()) status = (*side)->Enqueue(collective, &one.kept);
  absl::StatusOr<std::shared_ptr<const cuda::CudaEvent>> end = device->RecordEvent((*side)->comm().stream());
  if (status.ok()) status = end.status();
  if (!status.ok()) Fail(status);
  // Nobody can tell any more when the device is done with the memory.
  if (!end.ok()) return done(failure());
  if (status.ok()) enqueued(*end);
  one.end = *std::move(end);
  one.done = std::move(done);
  one.deadline = Now().PlusMs(group_.op_timeout_ms);
  {
    absl::MutexLock lock(&mutex_);
    under_way_.push_back(std::move(one));
  }
  resources_.watch->Wake();
}

absl::StatusOr<Side*> NcclCommunicator::SideOf(cuda::CudaDevice* device) {
  if (device == nullptr && last_ == nullptr) {
    return absl::FailedPreconditionError(
        "this process has joined without ever having used a GPU in this process set, so it has none to add zeros on");
  }
  if (device == nullptr) return last_;
  std::unique_ptr<Side>& side = sides_[device];
  if (side == nullptr) {
    absl::StatusOr<std::unique_ptr<Side>> made = MakeSide(device);
    if (!made.ok()) {
      sides_.erase(device);
      return made.status();
    }
    side = *std::move(made);
    absl::MutexLock lock(&mutex_);
    shown_.push_back(side.get());
  }
  return last_ = side.get();
}

absl::StatusOr<std::unique_ptr<Side>> NcclCommunicator::MakeSide(cuda::CudaDevice* device) {
  const std::string topic = absl::StrCat("nccl/", sides_.size());
  absl::StatusOr<const kernels::Kernels*> kernels = resources_.kernels(device);
  const TimePoint deadline = Now().PlusMs(group_.setup_timeout_ms);
  const absl::StatusOr<cuda::ncclUniqueId> id =
      Meet(group_, topic, {resources_.library, device, kernels.status()}, bootstrap_, deadline);
  if (!id.ok()) return id.status();
  absl::StatusOr<std::unique_ptr<Comm>> comm = Comm::Start({resources_.library, device}, {size(), position(), *id});
  // UNAVAILABLE would be taken for an answer of all.
  if (!comm.ok()) return absl::FailedPreconditionError(comm.status().message());
  return std::make_unique<Side>(*std::move(comm), *kernels, size(), position());
}

absl::StatusOr<Side*> NcclCommunicator::ReadySideOf(cuda::CudaDevice* device) {
  const absl::StatusOr<Side*> side = SideOf(device);
  if (!side.ok() || (*side)->ready()) return side;
  const TimePoint deadline = Now().PlusMs(group_.setup_timeout_ms);
  const absl::Status status = (*side)->AwaitReady([this, deadline] {
    absl::Status go_on = failure();
    if (go_on.ok() && deadline < Now()) {
      go_on = absl::DeadlineExceededError(absl::StrCat("the initialisation of NCCL among ", size(),
                                                       " ranks did not end within ", group_.setup_timeout_ms / 1000,
                                                       " s; NCCL_DEBUG=INFO says how far it came"));
    }
    return go_on;
  });
  if (!status.ok()) return status;
  return side;
}

void NcclCommunicator::Abort(const std::string& reason) { Fail(absl::AbortedError(reason)); }

void NcclCommunicator::Fail(const absl::Status& status) {
  {
    absl::MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = status;
  }
  resources_.watch->Wake();
}

absl::Status NcclCommunicator::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

Watch::Seen NcclCommunicator::Look() {
  const TimePoint now = Now();
  const absl::Status failed = failure();
  if (!failed.ok()) CarryOutAbort(failed, now);
  const bool ended = EndFinished(now);
  if (failed.ok()) CheckHealth(now);
  absl::MutexLock lock(&mutex_);
  if (ended) return Watch::Seen::kEnded;
  return under_way_.empty() && (failure_.ok() || aborted_) ? Watch::Seen::kNothing : Watch::Seen::kWaits;
}

void NcclCommunicator::CarryOutAbort(const absl::Status& failure, TimePoint now) {
  if (std::exchange(aborted_, true)) return;
  give_up_ = now.PlusMs(kGiveUpMs);
  std::vector<Side*> sides;
  {
    absl::MutexLock lock(&mutex_);
    sides = shown_;
  }
  for (Side* side : sides) side->comm().Abort(std::string(failure.message()));
}

bool NcclCommunicator::EndFinished(TimePoint now) {
  std::vector<UnderWay> finished;
  absl::Status outcome;
  {
    absl::MutexLock lock(&mutex_);
    std::set<const cuda::CudaDevice*> waiting;
    for (auto it = under_way_.begin(); it != under_way_.end();) {
      const cuda::CudaDevice* const device = it->end->device();
      if (waiting.count(device) != 0 || !Finished(*it, now)) {
        waiting.insert(device);
        ++it;
        continue;
      }
      finished.push_back(std::move(*it));
      it = under_way_.erase(it);
    }
    outcome = failure_;
    ending_ += static_cast<int>(finished.size());
  }
  for (UnderWay& one : finished) {
    one.kept = {};
    one.done(outcome);
    absl::MutexLock lock(&mutex_);
    --ending_;
  }
  return !finished.empty();
}

bool NcclCommunicator::Finished(const UnderWay& one, TimePoint now) {
  const absl::StatusOr<bool> reached = one.end->Reached();
  if (!reached.ok()) {
    if (failure_.ok()) failure_ = reached.status();
    return true;
  }
  if (*reached) return true;
  if (!failure_.ok() && aborted_ && give_up_ < now) {
    os::Log(os::LogLevel::kError, absl::StrCat(one.end->device()->name(), " does not end a collective of NCCL ",
                                               kGiveUpMs / 1000, " s after it was aborted: ", failure_.message()));
    return true;
  }
  if (failure_.ok() && one.deadline < now) {
    failure_ = absl::DeadlineExceededError(absl::StrCat("a collective on ", one.end->device()->name(),
                                                        " has taken longer than ", group_.op_timeout_ms / 1000,
                                                        " s (FARANDOLE_OP_TIMEOUT_SECONDS)"));
  }
  return false;
}

void NcclCommunicator::CheckHealth(TimePoint now) {
  if (now < next_check_) return;
  next_check_ = now.PlusMs(kCheckMs);
  std::vector<Side*> sides;
  {
    absl::MutexLock lock(&mutex_);
    if (under_way_.empty()) return;
    sides = shown_;
  }
  for (Side* side : sides) {
    if (!side->ready()) continue;
    const absl::Status health = side->comm().CheckHealth();
    if (!health.ok()) Fail(health);
  }
}

}  // namespace farandole::worker::nccl
