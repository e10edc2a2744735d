#ifndef FARANDOLE_WORKER_CUDA_FAKE_CUDA_EVENT_H_
#define FARANDOLE_WORKER_CUDA_FAKE_CUDA_EVENT_H_

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "worker/cuda/driver_abi.h"

namespace farandole::worker::cuda {

// An event of the fake driver: the moment that was recorded last. What was queued for an earlier one keeps that, so the
// event may be recorded again, or destroyed, meanwhile, as NVIDIA's may. Any thread.
struct CUevent_st {
 public:
  CUevent_st(CUdevice device, bool timed) : device_(device), timed_(timed) {}

  void Record(CUstream stream);
  // For what is recorded now; not at all if nothing is.
  void MakeWait(CUstream stream);
  // Also true if it was never recorded.
  bool Reached();
  // False: it was never recorded, or is not timed.
  bool IsTimed();
  // Of a moment that was reached.
  std::chrono::steady_clock::time_point time();
  CUdevice device() const { return device_; }

 private:
  struct Moment {
    std::mutex mutex;
    std::condition_variable changed;
    bool reached = false;
    std::chrono::steady_clock::time_point time;
  };

  std::shared_ptr<Moment> Last();

  const CUdevice device_;
  const bool timed_;
  std::mutex mutex_;
  // Null: it was never recorded.
  std::shared_ptr<Moment> last_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_CUDA_EVENT_H_
