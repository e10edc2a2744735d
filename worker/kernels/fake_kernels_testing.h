#ifndef FARANDOLE_WORKER_KERNELS_FAKE_KERNELS_TESTING_H_
#define FARANDOLE_WORKER_KERNELS_FAKE_KERNELS_TESTING_H_

#include "worker/cuda/fake_cuda.h"

namespace farandole::worker::kernels {

// Gives the fake driver the kernels of kernels.cu, compiled for the host, so that Kernels::Load finds them with an
// image of any text. `fake` must outlive what runs on its streams.
void AddFakeKernels(cuda::FakeCuda* fake);

}  // namespace farandole::worker::kernels

#endif  // FARANDOLE_WORKER_KERNELS_FAKE_KERNELS_TESTING_H_
