#ifndef FARANDOLE_WORKER_CUDA_FAKE_CUDA_STREAM_H_
#define FARANDOLE_WORKER_CUDA_FAKE_CUDA_STREAM_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>

#include "worker/cuda/driver_abi.h"
#include "worker/cuda/fake_cuda.h"

namespace farandole::worker::cuda {

// A stream of the fake driver: a thread that does what was queued, in order. Any thread may queue.
struct CUstream_st {
 public:
  explicit CUstream_st(CUdevice device);
  // Does first what is queued.
  ~CUstream_st();

  // Null and CU_STREAM_LEGACY are the default stream of the device of the thread's context, to which no other gives way
  // here; CU_STREAM_PER_THREAD is the thread's own there.
  static CUstream Resolve(CUstream stream);
  // False: it was destroyed, or never made.
  static bool Exists(CUstream stream);
  // What is on it goes on, as with NVIDIA's.
  static void Retire(CUstream stream);
  // Waits for what was retired.
  static void JoinRetired();

  void Queue(std::function<void()> work);
  bool Idle();
  // Ends also with a sticky error.
  void WaitIdle();
  CUdevice device() const { return device_; }

 private:
  void Run();
  void Delay(std::unique_lock<std::mutex>* lock);

  const CUdevice device_;
  // Of Run().
  std::mt19937 random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  bool busy_ = false;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_CUDA_STREAM_H_
