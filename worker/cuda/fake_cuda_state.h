#ifndef FARANDOLE_WORKER_CUDA_FAKE_CUDA_STATE_H_
#define FARANDOLE_WORKER_CUDA_FAKE_CUDA_STATE_H_

#include "worker/cuda/driver_abi.h"
#include "worker/cuda/fake_cuda.h"

namespace farandole::worker::cuda {

struct CUctx_st {
  CUdevice device;
};

// What the fake driver has once in a process, and once in a thread.
struct FakeCudaState {
  static constexpr int kDevicesMax = 8;

  // Never destroyed: streams may run until the process ends.
  static FakeCuda& Get();
  static CUcontext& Context();
  static CUstreamCaptureMode& CaptureMode();

  // Of a call that needs cuInit, and of one that needs a current context, too.
  static CUresult Initialized() { return Get().initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }
  static CUresult InContext() { return Context() != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT; }
  // Of a call that a graph would lack.
  static CUresult BesideCapture() {
    if (!Get().capture_elsewhere || CaptureMode() != CU_STREAM_CAPTURE_MODE_GLOBAL) return CUDA_SUCCESS;
    ++Get().captures_spoilt;
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  static CUdevice Device() { return Context() != nullptr ? Context()->device : 0; }
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_CUDA_STATE_H_
