#include "worker/cuda/fake_cuda_state.h"

namespace farandole::worker::cuda {

FakeCuda& FakeCudaState::Get() {
  static auto* const state = new FakeCuda();
  return *state;
}

CUcontext& FakeCudaState::Context() {
  thread_local CUcontext current = nullptr;
  return current;
}

CUstreamCaptureMode& FakeCudaState::CaptureMode() {
  thread_local CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_GLOBAL;
  return mode;
}

}  // namespace farandole::worker::cuda
