#include "worker/cuda/fake_cuda_stream.h"

#include <algorithm>
#include <utility>

namespace farandole::worker::cuda {

CUstream_st::CUstream_st(CUdevice device) : device_(device), thread_([this] { Run(); }) {}

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
  changed_.wait(lock, [this] { return queue_.empty() && !busy_; });
}

void CUstream_st::Run() {
  std::unique_lock<std::mutex> lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    const std::function<void()> work = std::move(queue_.front());
    queue_.pop_front();
    busy_ = true;
    lock.unlock();
    work();
    lock.lock();
    busy_ = false;
    changed_.notify_all();
  }
}

void CUevent_st::Record(CUstream stream) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  const int64_t number = ++state_->recorded;
  lock.unlock();
  stream->Queue([state = state_, number] {
    std::lock_guard<std::mutex> lock(state->mutex);
    state->reached = std::max(state->reached, number);
    state->time = std::chrono::steady_clock::now();
    state->changed.notify_all();
  });
}

void CUevent_st::MakeWait(CUstream stream) {
  std::unique_lock<std::mutex> lock(state_->mutex);
  const int64_t number = state_->recorded;
  lock.unlock();
  stream->Queue([state = state_, number] {
    std::unique_lock<std::mutex> lock(state->mutex);
    state->changed.wait(lock, [&] { return state->reached >= number; });
  });
}

bool CUevent_st::Reached() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->reached == state_->recorded;
}

std::chrono::steady_clock::time_point CUevent_st::time() {
  std::lock_guard<std::mutex> lock(state_->mutex);
  return state_->time;
}

}  // namespace farandole::worker::cuda
