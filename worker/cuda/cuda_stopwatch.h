#ifndef FARANDOLE_WORKER_CUDA_CUDA_STOPWATCH_H_
#define FARANDOLE_WORKER_CUDA_CUDA_STOPWATCH_H_

#include <string>
#include <utility>
#include <vector>

#include "worker/cuda/cuda_device.h"
#include "worker/device/phases.h"

namespace farandole::worker::cuda {

// How long the parts of what is on a stream take. A mark that fails is left out, as nobody but a timeline looks. One
// thread at a time; the device's context is current at a mark; destroyed before the device.
class CudaStopwatch {
 public:
  CudaStopwatch(CudaDevice* device, CUstream stream) : device_(device), stream_(stream) {}
  ~CudaStopwatch();
  CudaStopwatch(const CudaStopwatch&) = delete;
  CudaStopwatch& operator=(const CudaStopwatch&) = delete;

  // The end of a part, which began with the mark before it. The first mark is a beginning, its name is not used.
  void Mark(std::string name);
  // Once the device has passed all marks.
  device::Phases Read() const;

 private:
  CudaDevice* const device_;
  CUstream const stream_;
  std::vector<std::pair<std::string, CUevent>> marks_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_CUDA_STOPWATCH_H_
