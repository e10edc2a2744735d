#include "worker/staging/staged_communicator.h"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <deque>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "worker/collective/adasum_runner.h"
#include "worker/staging/staged_call.h"

namespace farandole::worker::staging {
namespace {

// One chunk comes, one is reduced, one goes.
constexpr size_t kSlots = 3;
// A copy of some kilobytes takes about ten microseconds.
constexpr std::chrono::microseconds kPause(10);
// Parts of an instance that a collective on the host may take.
constexpr uint32_t kInstanceParts = collective::AdasumRunner::kInstanceParts;

// Brings chunks to the host, in their order, to the slot that is free the longest.
class Loader {
 public:
  struct Loaded {
    StagedCall call;
    DeviceCopies::Moment moment;  // when it is there
  };

  // Both outlive it.
  Loader(DeviceCopies* copies, const std::vector<Call>* chunks, int position)
      : copies_(copies), chunks_(*chunks), position_(position) {}

  // Nothing is loaded before `ready`.
  absl::Status Prepare(const std::vector<device::EventPtr>& ready) {
    for (const Call& chunk : chunks_) slot_bytes_ = std::max(slot_bytes_, Stage(chunk, position_, nullptr).bytes);
    const auto slots = static_cast<int64_t>(std::min(chunks_.size(), kSlots));
    const absl::StatusOr<char*> memory = copies_->Reserve(slots * slot_bytes_);
    if (!memory.ok()) return memory.status();
    memory_ = *memory;
    for (const device::EventPtr& moment : ready) {
      const absl::Status status = copies_->LoadAfter(*moment);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

  // Enqueues what has room while chunk `current` is on the host, where the one before it went back at `stored`.
  absl::Status LoadBeside(size_t current, const DeviceCopies::Moment& stored) {
    for (; next_ < std::min(chunks_.size(), current + kSlots); ++next_) {
      absl::Status status;
      if (stored != nullptr) status = copies_->LoadAfter(*stored);
      if (!status.ok()) return status;
      StagedCall call = Stage(chunks_[next_], position_, memory_ + next_ % kSlots * slot_bytes_);
      absl::StatusOr<DeviceCopies::Moment> moment = copies_->Load(call.loads);
      if (!moment.ok()) return moment.status();
      loaded_.push_back({std::move(call), *std::move(moment)});
    }
    return absl::OkStatus();
  }

  Loaded Take() {
    Loaded first = std::move(loaded_.front());
    loaded_.pop_front();
    return first;
  }

 private:
  DeviceCopies* const copies_;
  const std::vector<Call>& chunks_;
  const int position_;
  char* memory_ = nullptr;
  int64_t slot_bytes_ = 0;
  size_t next_ = 0;
  std::deque<Loaded> loaded_;  // at most kSlots
};

}  // namespace

StagedCommunicator::StagedCommunicator(std::unique_ptr<collective::Communicator> host, uint32_t op_timeout_ms,
                                       int64_t chunk_bytes)
    : host_(std::move(host)), op_timeout_ms_(op_timeout_ms), chunk_bytes_(chunk_bytes) {}

StagedCommunicator::~StagedCommunicator() = default;

void StagedCommunicator::Start(const collective::Instance& instance, const collective::Collective& collective,
                               const Enqueued& enqueued, Done done) {
  absl::Status status = failure();
  if (status.ok()) status = Run(instance, collective, enqueued);
  if (!status.ok()) Abort(std::string(status.message()));
  done(status);
}

absl::Status StagedCommunicator::Run(const collective::Instance& instance, const collective::Collective& collective,
                                     const Enqueued& enqueued) {
  const std::vector<Call> chunks = Cut(collective.what, chunk_bytes_);
  if (collective.device == nullptr) return AddZeros(instance, chunks);
  const absl::StatusOr<DeviceCopies*> copies = CopiesOf(collective.device);
  if (!copies.ok()) return copies.status();
  const absl::Status status = RunOn(*copies, instance, chunks, collective.ready, enqueued);
  if (!status.ok()) (*copies)->Settle();
  return status;
}

absl::Status StagedCommunicator::AddZeros(const collective::Instance& instance, const std::vector<Call>& chunks) {
  for (const Call& chunk : chunks) {
    const absl::Status status = RunOnHost(instance, Stage(chunk, position(), nullptr).collective);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status StagedCommunicator::RunOn(DeviceCopies* copies, const collective::Instance& instance,
                                       const std::vector<Call>& chunks, const std::vector<device::EventPtr>& ready,
                                       const Enqueued& enqueued) {
  Loader loader(copies, &chunks, position());
  absl::Status status = loader.Prepare(ready);
  DeviceCopies::Moment stored;
  for (size_t k = 0; status.ok() && k < chunks.size(); ++k) {
    status = loader.LoadBeside(k, stored);
    if (!status.ok()) break;
    const Loader::Loaded chunk = loader.Take();
    status = Await(*chunk.moment);
    if (status.ok()) status = RunOnHost(instance, chunk.call.collective);
    if (!status.ok()) break;
    absl::StatusOr<DeviceCopies::Moment> moment = copies->Store(chunk.call.stores);
    status = moment.status();
    if (moment.ok()) stored = *std::move(moment);
  }
  if (!status.ok()) return status;
  // The chunks go back in their order.
  enqueued(stored);
  return Await(*stored);
}

absl::StatusOr<DeviceCopies*> StagedCommunicator::CopiesOf(device::Device* device) {
  std::unique_ptr<DeviceCopies>& copies = copies_[device];
  if (copies != nullptr) return copies.get();
  absl::StatusOr<std::unique_ptr<DeviceCopies>> made = DeviceCopies::Make(static_cast<cuda::CudaDevice*>(device));
  if (!made.ok()) return made.status();
  copies = *std::move(made);
  return copies.get();
}

absl::Status StagedCommunicator::RunOnHost(const collective::Instance& instance,
                                           const collective::Collective& collective) {
  absl::Status outcome;
  absl::Notification ended;
  host_->Start(NextOnHost(instance), collective, nullptr, [&](const absl::Status& status) {
    outcome = status;
    ended.Notify();
  });
  ended.WaitForNotification();
  return outcome;
}

// A collective has fewer parts of its own than it may have chunks. So they are numbered through the batch, of which all
// members start the same collectives.
collective::Instance StagedCommunicator::NextOnHost(const collective::Instance& instance) {
  collective::Instance next = instance;
  next.part = on_host_.part;
  next.part = next == on_host_ ? next.part + kInstanceParts : 0;
  on_host_ = next;
  return next;
}

absl::Status StagedCommunicator::Await(const cuda::CudaEvent& event) {
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(op_timeout_ms_);
  for (;;) {
    const TimePoint now = Clock::Monotonic().Now();
    const absl::StatusOr<bool> reached = event.Reached();
    if (!reached.ok()) return reached.status();
    const absl::Status failed = failure();
    if (*reached || !failed.ok()) return failed;
    if (deadline < now) {
      return absl::DeadlineExceededError(absl::StrCat(event.device()->name(), " has been at work for longer than ",
                                                      op_timeout_ms_ / 1000, " s (FARANDOLE_OP_TIMEOUT_SECONDS)"));
    }
    std::this_thread::sleep_for(kPause);
  }
}

absl::Status StagedCommunicator::failure() const {
  absl::MutexLock lock(&mutex_);
  return failure_;
}

void StagedCommunicator::Abort(const std::string& reason) {
  {
    absl::MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = absl::AbortedError(reason);
  }
  host_->Abort(reason);
}

}  // namespace farandole::worker::staging
