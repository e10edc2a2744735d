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

}  // namespace farandole::worker::cuda
