#include "worker/cuda/cuda_stream.h"

namespace farandole::worker::cuda {

absl::StatusOr<std::unique_ptr<CudaStream>> CudaStream::Make(CudaDevice* device) {
  const CudaDevice::Current current(device);
  const DriverApi& api = device->api();
  int least = 0;
  int greatest = 0;
  CUstream stream = nullptr;
  absl::Status status =
      device->ToStatus(api.cuCtxGetStreamPriorityRange(&least, &greatest), "cuCtxGetStreamPriorityRange");
  if (status.ok()) {
    status = device->ToStatus(api.cuStreamCreateWithPriority(&stream, CU_STREAM_NON_BLOCKING, greatest),
                              "cuStreamCreateWithPriority");
  }
  if (!status.ok()) return status;
  return std::unique_ptr<CudaStream>(new CudaStream(device, stream));
}

CudaStream::~CudaStream() {
  const CudaDevice::Current current(device_);
  device_->api().cuStreamDestroy(stream_);
}

}  // namespace farandole::worker::cuda
