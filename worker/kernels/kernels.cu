// Kernels for GPUs, compiled by clang to PTX without any file of NVIDIA's (docs/decisions/020-kernels.md).
#include <stdint.h>

#include <cstdint>
#include <limits>

// What comes from here on is for the device, too.
#pragma clang force_cuda_host_device begin
#include "worker/kernels/adasum.h"
#include "worker/kernels/move.h"
#pragma clang force_cuda_host_device end

namespace farandole::worker::kernels {

// Blocks of Grid::kThreads; three on a multiprocessor leave 80 registers for a thread, and have loads enough under way.
#define FARANDOLE_KERNEL extern "C" __attribute__((global, launch_bounds(256, 3)))

__attribute__((device)) inline Share ShareOfThread() {
  const int64_t warps = __nvvm_read_ptx_sreg_ntid_x() / 32;
  const int64_t thread = __nvvm_read_ptx_sreg_tid_x();
  return {__nvvm_read_ptx_sreg_ctaid_x() * warps + thread / 32, __nvvm_read_ptx_sreg_nctaid_x() * warps, thread % 32,
          32};
}

#define FARANDOLE_MOVE(name, from, to, Kind)                                                            \
  FARANDOLE_KERNEL void name(const MovePiece* table, int32_t pieces, int64_t elements, int64_t chunk) { \
    Move<Kind>(table, pieces, elements, chunk, ShareOfThread());                                        \
  }
FARANDOLE_MOVE_KERNELS(FARANDOLE_MOVE)

#define FARANDOLE_ADASUM(name, type, Reals)                                            \
  FARANDOLE_KERNEL void adasum_products_##name(const AdasumCall call, int64_t chunk) { \
    AddAdasumProducts<Reals>(call, chunk, ShareOfThread());                            \
  }                                                                                    \
  FARANDOLE_KERNEL void adasum_sum_##name(const AdasumCall call, int64_t chunk) {      \
    AddWeighted<Reals>(call, chunk, ShareOfThread());                                  \
  }
FARANDOLE_ADASUM_KERNELS(FARANDOLE_ADASUM)

FARANDOLE_KERNEL void adasum_weights(const AdasumCall call) { FillWeights(call, ShareOfThread()); }

}  // namespace farandole::worker::kernels
