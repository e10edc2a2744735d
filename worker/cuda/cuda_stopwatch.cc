#include "worker/cuda/cuda_stopwatch.h"

#include <cstddef>

namespace farandole::worker::cuda {

CudaStopwatch::CudaStopwatch(CudaDevice* device, CUstream stream) : device_(device), stream_(stream) {
  Mark(device::PhaseKind::kWaited);
}

CudaStopwatch::~CudaStopwatch() {
  const CudaDevice::Current current(device_);
  for (const auto& mark : marks_) device_->api().cuEventDestroy(mark.second);
}

void CudaStopwatch::Mark(device::PhaseKind kind) {
  CUevent event = nullptr;
  if (device_->api().cuEventCreate(&event, CU_EVENT_DEFAULT) != CUDA_SUCCESS) return;
  if (device_->api().cuEventRecord(event, stream_) != CUDA_SUCCESS) {
    device_->api().cuEventDestroy(event);
    return;
  }
  marks_.emplace_back(kind, event);
}

device::Phases CudaStopwatch::Read() const {
  const CudaDevice::Current current(device_);
  device::Phases phases;
  for (size_t i = 1; i < marks_.size(); ++i) {
    float ms = 0;
    const CUresult result = device_->api().cuEventElapsedTime(&ms, marks_[i - 1].second, marks_[i].second);
    if (result == CUDA_SUCCESS) phases.push_back({marks_[i].first, ms});
  }
  return phases;
}

}  // namespace farandole::worker::cuda
