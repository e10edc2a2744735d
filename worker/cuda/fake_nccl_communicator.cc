#include "worker/cuda/fake_nccl_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>

namespace farandole::worker::cuda {
namespace {

constexpr char kKernel[] = "fake_nccl";
constexpr int kFirstMadeOp = 5;
// How soon it is seen that CUDA has failed.
constexpr std::chrono::milliseconds kLook(1);

FakeNcclLinks::Deadline In(int ms) { return std::chrono::steady_clock::now() + std::chrono::milliseconds(ms); }

}  // namespace

FakeNcclCommunicator::FakeNcclCommunicator(FakeNccl* knobs, FakeCuda* cuda, Size size, bool blocking, Log log)
    : knobs_(knobs),
      cuda_(cuda),
      size_(size),
      device_(cuda->current_device()),
      blocking_(blocking),
      log_(std::move(log)) {
  cuda->add_kernel(kKernel, Kernel, {sizeof(Visit*)});
}

FakeNcclCommunicator::~FakeNcclCommunicator() { Abort(); }

FakeNcclMeeting::Result FakeNcclCommunicator::Meet(const std::string& name, int color, int key, Size size) {
  const FakeNcclMeeting::Rank mine = {size.rank, size.ranks, getpid(), device_, color, key};
  return FakeNcclMeeting::Meet(name, mine, interrupt_, In(knobs_->init_limit_ms), knobs_->remote_error_on_death);
}

void FakeNcclCommunicator::InitByMeeting(const std::string& name) {
  name_ = name;
  Start([this] { return Meet(name_, 0, 0, size_); });
}

// First all ranks of the parent meet and say their colors, then those of one color.
void FakeNcclCommunicator::InitBySplit(FakeNcclCommunicator* parent, int color, int key) {
  std::unique_lock<std::mutex> lock(parent->mutex_);
  const std::string all = parent->name_ + "." + std::to_string(++parent->splits_);
  parent->child_ = shared_from_this();
  lock.unlock();
  name_ = all + "." + std::to_string(color);
  Start([this, all, color, key] {
    FakeNcclMeeting::Result met = Meet(all, color, key, size_);
    if (color < 0 || met.links == nullptr) return met;
    const int my_rank = size_.rank;
    std::vector<FakeNcclMeeting::Rank>& ranks = met.ranks;
    const auto other = [color](const FakeNcclMeeting::Rank& rank) { return rank.color != color; };
    ranks.erase(std::remove_if(ranks.begin(), ranks.end(), other), ranks.end());
    std::stable_sort(ranks.begin(), ranks.end(), [](const auto& one, const auto& next) { return one.key < next.key; });
    const auto mine = std::find_if(ranks.begin(), ranks.end(), [&](const auto& rank) { return rank.rank == my_rank; });
    size_ = {static_cast<int>(mine - ranks.begin()), static_cast<int>(ranks.size())};
    return Meet(name_, color, key, size_);
  });
}

void FakeNcclCommunicator::Start(std::function<FakeNcclMeeting::Result()> meet) {
  FakeNcclMeeting::Result failure;
  failure.result = Concerned() ? knobs_->init_result.load() : ncclSuccess;
  failure.text = knobs_->init_text;
  const bool waits = Concerned() && knobs_->init_never_ends;
  std::lock_guard<std::mutex> lock(mutex_);
  init_ = std::thread([this, meet = std::move(meet), failure = std::move(failure), waits]() mutable {
    if (failure.result != ncclSuccess) return EndInit(std::move(failure));
    if (!waits) return EndInit(meet());
    std::unique_lock<std::mutex> lock(mutex_);
    WaitLocked(&lock, [] { return false; });
  });
}

void FakeNcclCommunicator::EndInit(FakeNcclMeeting::Result met) {
  std::lock_guard<std::mutex> lock(mutex_);
  changed_.notify_all();
  if (aborted_) return;
  if (met.result != ncclSuccess) return FailLocked(met.result, met.text);
  links_ = std::move(met.links);
  state_ = ncclSuccess;
  if (Concerned() && knobs_->async_error_after == 0) FailLocked(knobs_->async_error, knobs_->async_text.load());
}

ncclResult_t FakeNcclCommunicator::WaitForInit() {
  std::unique_lock<std::mutex> lock(mutex_);
  changed_.wait(lock, [this] { return aborted_ || state_ != ncclInProgress; });
  return aborted_ ? ncclInvalidUsage : state_;
}

ncclResult_t FakeNcclCommunicator::StateLocked() {
  if (state_ != ncclSuccess) return state_;
  if (delayed_ != nullptr || (finalizing_ && ended_ < launched_)) return ncclInProgress;
  if (child_ != nullptr && !blocking_) {
    std::lock_guard<std::mutex> lock(child_->mutex_);
    if (child_->state_ == ncclInProgress && !child_->aborted_) return ncclInProgress;
  }
  return ncclSuccess;
}

ncclResult_t FakeNcclCommunicator::Usable(std::string* why) {
  std::lock_guard<std::mutex> lock(mutex_);
  const ncclResult_t state = StateLocked();
  *why = state == ncclInProgress ? "Attempt to use communicator before the previous operation returned ncclSuccess"
                                 : "the communicator has failed: " + text_;
  return state == ncclInProgress ? ncclInvalidUsage : state;
}

ncclResult_t FakeNcclCommunicator::Poll() {
  std::lock_guard<std::mutex> lock(mutex_);
  if (delayed_ != nullptr && state_ == ncclSuccess) {
    if (polls_left_-- > 0) return ncclInProgress;
    const std::shared_ptr<Work> work = std::move(delayed_);
    delayed_ = nullptr;
    const ncclResult_t queued = QueueLocked(work);
    if (queued != ncclSuccess) FailLocked(queued, "the kernel could not be launched");
  }
  return StateLocked();
}

ncclResult_t FakeNcclCommunicator::Launch(std::vector<FakeNcclTask> tasks, const std::vector<CUstream>& streams) {
  auto work = std::make_shared<Work>();
  work->communicator = shared_from_this();
  work->tasks = std::move(tasks);
  work->streams = streams;
  std::lock_guard<std::mutex> lock(mutex_);
  if (aborted_ || finalizing_) return ncclInvalidUsage;
  work->number = launched_++;
  const int polls = !blocking_ && Concerned() ? knobs_->polls_in_progress.load() : 0;
  if (polls == 0) return QueueLocked(work);
  delayed_ = std::move(work);
  polls_left_ = polls;
  return ncclInProgress;
}

ncclResult_t FakeNcclCommunicator::QueueLocked(const std::shared_ptr<Work>& work) {
  for (const CUstream stream : work->streams) {
    auto visit = std::make_unique<Visit>(Visit{work, stream == work->streams.front()});
    Visit* const pointer = visit.get();
    const void* argument = &pointer;
    void* arguments[] = {const_cast<void*>(argument)};
    if (cuda_->launch(kKernel, stream, arguments) != CUDA_SUCCESS) return ncclUnhandledCudaError;
    visit.release();
  }
  return ncclSuccess;
}

void FakeNcclCommunicator::Kernel(void** arguments) {
  const std::unique_ptr<Visit> visit(*static_cast<Visit**>(arguments[0]));
  visit->work->communicator->Visited(visit->work.get(), visit->first);
}

// On each stream of the work: the first does it when all have come, the others wait for that.
void FakeNcclCommunicator::Visited(Work* work, bool first) {
  std::unique_lock<std::mutex> lock(mutex_);
  if (aborted_) return;
  ++running_;
  ++knobs_->running_kernels;
  ++work->come;
  changed_.notify_all();
  if (!first) {
    WaitLocked(&lock, [work] { return work->done; });
  } else {
    const int last = Concerned() ? knobs_->async_error_after.load() : FakeNccl::kNever;
    // Set when so many had ended already.
    if (last >= 0 && last <= ended_) FailLocked(knobs_->async_error, knobs_->async_text.load());
    const auto may_run = [&] {
      return work->come == work->streams.size() && ended_ == work->number && (last < 0 || work->number < last);
    };
    if (WaitLocked(&lock, may_run)) {
      lock.unlock();
      const bool done = RunTasks(*work);
      lock.lock();
      if (!done) WaitLocked(&lock, [] { return false; });
      work->done = done;
      if (done) ++knobs_->works;
      if (done && ++ended_ == last) FailLocked(knobs_->async_error, knobs_->async_text.load());
    }
  }
  --knobs_->running_kernels;
  --running_;
  changed_.notify_all();
}

// Not under the lock: the links stay until no kernel runs.
bool FakeNcclCommunicator::RunTasks(const Work& work) {
  const FakeNcclTask::Place place = {
      size_.rank,
      size_.ranks,
      links_.get(),
      &interrupt_,
      In(knobs_->kernel_limit_ms),
      knobs_->remote_error_on_death,
      [this](ncclResult_t result, const std::string& text) {
        std::lock_guard<std::mutex> lock(mutex_);
        FailLocked(result, text);
      },
  };
  return std::all_of(work.tasks.begin(), work.tasks.end(),
                     [&place](const FakeNcclTask& task) { return task.Run(place); });
}

void FakeNcclCommunicator::FailLocked(ncclResult_t result, const std::string& text) {
  if (aborted_ || (state_ != ncclSuccess && state_ != ncclInProgress)) return;
  state_ = result;
  text_ = text;
  log_(text);
  changed_.notify_all();
}

bool FakeNcclCommunicator::WaitLocked(std::unique_lock<std::mutex>* lock, const std::function<bool()>& ready) {
  const bool in_time = changed_.wait_until(*lock, In(knobs_->kernel_limit_ms), [&] { return aborted_ || ready(); });
  if (!in_time) FailLocked(ncclSystemError, "rank " + std::to_string(size_.rank) + " waited too long");
  return in_time && !aborted_;
}

bool FakeNcclCommunicator::WaitForWork() {
  std::unique_lock<std::mutex> lock(mutex_);
  const auto ended = [this] { return aborted_ || (ended_ == launched_ && running_ == 0); };
  const FakeNcclLinks::Deadline limit = In(knobs_->kernel_limit_ms);
  while (!changed_.wait_for(lock, kLook, ended)) {
    if (cuda_->sticky_error != CUDA_SUCCESS || std::chrono::steady_clock::now() > limit) return false;
  }
  return true;
}

ncclResult_t FakeNcclCommunicator::Finalize() {
  std::unique_lock<std::mutex> lock(mutex_);
  if (finalizing_) return ncclInvalidArgument;
  finalizing_ = true;
  lock.unlock();
  if (blocking_ && !WaitForWork()) return ncclUnhandledCudaError;
  lock.lock();
  return StateLocked();
}

void FakeNcclCommunicator::Abort() {
  std::unique_lock<std::mutex> lock(mutex_);
  aborted_ = true;
  interrupt_.Raise();
  changed_.notify_all();
  std::thread init = std::move(init_);
  std::shared_ptr<FakeNcclCommunicator> child = std::move(child_);
  std::shared_ptr<Work> delayed = std::move(delayed_);
  lock.unlock();
  // May be the last of a split that left this rank out.
  child.reset();
  if (init.joinable()) init.join();
  lock.lock();
  changed_.wait(lock, [this] { return running_ == 0; });
  links_.reset();
  knobs_->live_registrations -= static_cast<int>(registered_.size());
  registered_.clear();
}

ncclRedOp_t FakeNcclCommunicator::AddOp(FakeNcclScalar factor, ncclDataType_t type) {
  // Of the process, so that one communicator's is not found in another.
  static std::atomic<int> next{kFirstMadeOp};
  const auto op = static_cast<ncclRedOp_t>(next++);
  std::lock_guard<std::mutex> lock(mutex_);
  ops_[op] = {factor, type};
  return op;
}

bool FakeNcclCommunicator::RemoveOp(ncclRedOp_t op) {
  std::lock_guard<std::mutex> lock(mutex_);
  return ops_.erase(op) == 1;
}

bool FakeNcclCommunicator::FindOp(ncclRedOp_t op, FakeNcclScalar* factor, ncclDataType_t* type) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = ops_.find(op);
  if (found == ops_.end()) return false;
  *factor = found->second.factor;
  *type = found->second.type;
  return true;
}

void* FakeNcclCommunicator::Register(void* memory) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (registered_.insert(memory).second) ++knobs_->live_registrations;
  return memory;
}

bool FakeNcclCommunicator::Deregister(void* handle) {
  std::lock_guard<std::mutex> lock(mutex_);
  if (registered_.erase(handle) == 0) return false;
  --knobs_->live_registrations;
  return true;
}

}  // namespace farandole::worker::cuda
