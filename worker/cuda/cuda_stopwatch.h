#ifndef FARANDOLE_WORKER_CUDA_CUDA_STOPWATCH_H_
#define FARANDOLE_WORKER_CUDA_CUDA_STOPWATCH_H_

#include <utility>
#include <vector>

#include "worker/cuda/cuda_device.h"
#include "worker/device/phases.h"

namespace farandole::worker::cuda {

// How long the parts of what is on a stream take. A mark that fails is left out, as only people look. One
// thread at a time; the device's context is current at a mark and at the beginning; destroyed before the device.
class CudaStopwatch {
 public:
  // Begins, when the stream comes to it.
  CudaStopwatch(CudaDevice* device, CUstream stream);
  ~CudaStopwatch();
  CudaStopwatch(const CudaStopwatch&) = delete;
  CudaStopwatch& operator=(const CudaStopwatch&) = delete;

  // The end of a part, which began with the mark before it.
  void Mark(device::PhaseKind kind);
  // Once the device has passed all marks.
  device::Phases Read() const;

 private:
  CudaDevice* const device_;
  CUstream const stream_;
  // The first one is the beginning.
  std::vector<std::pair<device::PhaseKind, CUevent>> marks_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_CUDA_STOPWATCH_H_
