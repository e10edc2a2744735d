#ifndef FARANDOLE_WORKER_CUDA_FAKE_CUDA_STREAM_H_
#define FARANDOLE_WORKER_CUDA_FAKE_CUDA_STREAM_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "worker/cuda/driver_abi.h"

namespace farandole::worker::cuda {

// A stream of the fake driver: a thread that does what was queued, in order. Any thread may queue.
struct CUstream_st {
 public:
  explicit CUstream_st(CUdevice device);
  // Does first what is queued.
  ~CUstream_st();

  void Queue(std::function<void()> work);
  bool Idle();
  void WaitIdle();
  CUdevice device() const { return device_; }

 private:
  void Run();

  const CUdevice device_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

// An event of the fake driver. What is queued shares its state, so it may be destroyed meanwhile, as NVIDIA's may.
struct CUevent_st {
 public:
  void Record(CUstream stream);
  void MakeWait(CUstream stream);
  // Also true if it was never recorded.
  bool Reached();
  // Of the last record that was reached.
  std::chrono::steady_clock::time_point time();

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    int64_t recorded = 0;
    int64_t reached = 0;
    std::chrono::steady_clock::time_point time;
  };

  const std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_CUDA_STREAM_H_
