#ifndef FARANDOLE_WORKER_CUDA_CUDA_STREAM_H_
#define FARANDOLE_WORKER_CUDA_CUDA_STREAM_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/cuda/cuda_device.h"

namespace farandole::worker::cuda {

// A stream of our own: what is on it goes before the work of frameworks where the device has to choose, and does not
// wait for their default streams.
class CudaStream {
 public:
  // `device` outlives the stream.
  static absl::StatusOr<std::unique_ptr<CudaStream>> Make(CudaDevice* device);
  // What is on it goes on.
  ~CudaStream();
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  CUstream get() const { return stream_; }

 private:
  CudaStream(CudaDevice* device, CUstream stream) : device_(device), stream_(stream) {}

  CudaDevice* const device_;
  CUstream const stream_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_CUDA_STREAM_H_
