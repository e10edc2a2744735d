#ifndef FARANDOLE_WORKER_CUDA_FAKE_CUDA_DEVICE_H_
#define FARANDOLE_WORKER_CUDA_FAKE_CUDA_DEVICE_H_

#include "worker/cuda/fake_cuda_entry_points.h"

namespace farandole::worker::cuda {

// What the fake driver says of itself, its errors, devices and contexts.
void AddFakeCudaDeviceCalls(FakeCudaEntryPoints* all);

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_CUDA_DEVICE_H_
