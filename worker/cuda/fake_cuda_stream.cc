#include "worker/cuda/fake_cuda_stream.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "worker/cuda/fake_cuda_state.h"

namespace farandole::worker::cuda {
namespace {

// How soon a waiting host sees a sticky error.
constexpr std::chrono::milliseconds kLook(1);

// Streams that were destroyed and still work. Those that are done are joined whenever another comes, and at the end.
class Retired {
 public:
  static Retired& Get() {
    static Retired retired;
    return retired;
  }
  ~Retired() {
    std::lock_guard<std::mutex> lock(mutex_);
    JoinLocked(false);
  }

  void Add(CUstream stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    streams_.push_back(stream);
    JoinLocked(false);
  }
  void JoinAll() {
    std::lock_guard<std::mutex> lock(mutex_);
    JoinLocked(true);
  }

 private:
  // `all`, or those that are done.
  void JoinLocked(bool all) {
    const auto stays = [all](CUstream stream) { return !all && !stream->Idle(); };
    const auto gone = std::stable_partition(streams_.begin(), streams_.end(), stays);
    std::for_each(gone, streams_.end(), [](CUstream stream) { delete stream; });
    streams_.erase(gone, streams_.end());
  }

  std::mutex mutex_;
  std::vector<CUstream> streams_;
};

// Those that frameworks know by their address.
class Living {
 public:
  static Living& Get() {
    static auto* const living = new Living();
    return *living;
  }
  void Add(CUstream stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    streams_.insert(stream);
  }
  void Remove(CUstream stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    streams_.erase(stream);
  }
  bool Has(CUstream stream) {
    std::lock_guard<std::mutex> lock(mutex_);
    return streams_.count(stream) != 0;
  }

 private:
  std::mutex mutex_;
  std::set<CUstream> streams_;
};

// Never destroyed, as they may be used until the process ends.
CUstream DefaultStream(std::thread::id thread) {
  static std::mutex mutex;
  static auto* const streams = new std::map<std::pair<std::thread::id, CUdevice>, CUstream>();
  std::lock_guard<std::mutex> lock(mutex);
  CUstream& mine = (*streams)[{thread, FakeCudaState::Device()}];
  if (mine == nullptr) mine = new CUstream_st(FakeCudaState::Device());
  return mine;
}

bool IsDefault(CUstream stream) {
  return stream == nullptr || stream == kCuStreamLegacy || stream == kCuStreamPerThread;
}

}  // namespace

CUstream CUstream_st::Resolve(CUstream stream) {
  if (!IsDefault(stream)) return stream;
  return DefaultStream(stream == kCuStreamPerThread ? std::this_thread::get_id() : std::thread::id());
}

bool CUstream_st::Exists(CUstream stream) { return IsDefault(stream) || Living::Get().Has(stream); }

void CUstream_st::Retire(CUstream stream) {
  Living::Get().Remove(stream);
  Retired::Get().Add(stream);
}

void CUstream_st::JoinRetired() { Retired::Get().JoinAll(); }

CUstream_st::CUstream_st(CUdevice device) : device_(device) {
  FakeCuda& state = FakeCudaState::Get();
  std::seed_seq seed = {state.seed.load(), static_cast<unsigned>(state.streams_created++)};
  random_.seed(seed);
  Living::Get().Add(this);
  thread_ = std::thread([this] { Run(); });
}

CUstream_st::~CUstream_st() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

void CUstream_st::Queue(std::function<void()> work) {
  std::lock_guard<std::mutex> lock(mutex_);
  queue_.push_back(std::move(work));
  changed_.notify_all();
}

bool CUstream_st::Idle() {
  std::lock_guard<std::mutex> lock(mutex_);
  return queue_.empty() && !busy_;
}

void CUstream_st::WaitIdle() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!changed_.wait_for(lock, kLook, [this] { return queue_.empty() && !busy_; })) {
    if (FakeCudaState::Get().sticky_error != CUDA_SUCCESS) return;
  }
}

void CUstream_st::Delay(std::unique_lock<std::mutex>* lock) {
  const int most = FakeCudaState::Get().delay_us_max;
  if (most <= 0) return;
  const std::chrono::microseconds delay(std::uniform_int_distribution<int>(0, most)(random_));
  changed_.wait_for(*lock, delay, [] { return false; });
}

void CUstream_st::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    Delay(&lock);
    lock.unlock();
    work();
    // What it holds is given up before the stream says that it is done.
    work = nullptr;
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

}  // namespace farandole::worker::cuda
