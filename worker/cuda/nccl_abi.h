#ifndef FARANDOLE_WORKER_CUDA_NCCL_ABI_H_
#define FARANDOLE_WORKER_CUDA_NCCL_ABI_H_

#include <climits>
#include <cstddef>

#include "worker/cuda/driver_abi.h"

// What Farandole uses of NCCL's ABI, under NCCL's names, so that its manual explains it: that of 2.18, to which later
// releases only add (docs/decisions/019-gpu-libraries.md).
namespace farandole::worker::cuda {

using ncclComm_t = struct ncclComm*;
using ncclWindow_t = struct ncclWindow_vidmem*;

// Made by one rank, the same on all.
struct ncclUniqueId {
  char internal[128];
};

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

// Those that ncclRedOpCreatePreMulSum makes have higher numbers.
enum ncclRedOp_t : int { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3, ncclAvg = 4 };

enum ncclDataType_t : int {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
};

enum ncclScalarResidence_t : int { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 };

// NCCL_CONFIG_UNDEF_INT: NCCL decides.
inline constexpr int kNcclUndefined = INT_MIN;

// As of NCCL 2.18. A later NCCL reads `size` bytes of it, and takes its own defaults for the rest.
struct ncclConfig_t {
  size_t size = sizeof(ncclConfig_t);
  unsigned magic = 0xcafebeef;
  unsigned version = 21801;
  int blocking = kNcclUndefined;
  int cgaClusterSize = kNcclUndefined;
  int minCTAs = kNcclUndefined;
  int maxCTAs = kNcclUndefined;
  const char* netName = nullptr;
  int splitShare = kNcclUndefined;
};

// None is null unless it says so.
struct NcclApi {
  ncclResult_t (*ncclGetVersion)(int* version);
  const char* (*ncclGetErrorString)(ncclResult_t result);
  // What went wrong last in this process, in more words; `comm` may be null.
  const char* (*ncclGetLastError)(ncclComm_t comm);

  ncclResult_t (*ncclGetUniqueId)(ncclUniqueId* id);
  ncclResult_t (*ncclCommInitRankConfig)(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t* config);
  ncclResult_t (*ncclCommSplit)(ncclComm_t comm, int color, int key, ncclComm_t* made, ncclConfig_t* config);
  ncclResult_t (*ncclCommFinalize)(ncclComm_t comm);
  ncclResult_t (*ncclCommDestroy)(ncclComm_t comm);
  ncclResult_t (*ncclCommAbort)(ncclComm_t comm);
  ncclResult_t (*ncclCommGetAsyncError)(ncclComm_t comm, ncclResult_t* error);

  ncclResult_t (*ncclAllReduce)(const void* in, void* out, size_t count, ncclDataType_t type, ncclRedOp_t op,
                                ncclComm_t comm, CUstream stream);
  ncclResult_t (*ncclReduceScatter)(const void* in, void* out, size_t out_count, ncclDataType_t type, ncclRedOp_t op,
                                    ncclComm_t comm, CUstream stream);
  ncclResult_t (*ncclAllGather)(const void* in, void* out, size_t in_count, ncclDataType_t type, ncclComm_t comm,
                                CUstream stream);
  ncclResult_t (*ncclBroadcast)(const void* in, void* out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                                CUstream stream);
  ncclResult_t (*ncclSend)(const void* in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                           CUstream stream);
  ncclResult_t (*ncclRecv)(void* out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream);
  ncclResult_t (*ncclGroupStart)();
  ncclResult_t (*ncclGroupEnd)();
  ncclResult_t (*ncclRedOpCreatePreMulSum)(ncclRedOp_t* op, void* scalar, ncclDataType_t type,
                                           ncclScalarResidence_t residence, ncclComm_t comm);
  ncclResult_t (*ncclRedOpDestroy)(ncclRedOp_t op, ncclComm_t comm);

  // From 2.19 on, else null.
  ncclResult_t (*ncclCommRegister)(ncclComm_t comm, void* memory, size_t bytes, void** handle);
  ncclResult_t (*ncclCommDeregister)(ncclComm_t comm, void* handle);
  ncclResult_t (*ncclMemAlloc)(void** memory, size_t bytes);
  ncclResult_t (*ncclMemFree)(void* memory);
  // From 2.27 on, else null.
  ncclResult_t (*ncclCommShrink)(ncclComm_t comm, int* excluded, int excluded_count, ncclComm_t* made,
                                 ncclConfig_t* config, int flags);
  ncclResult_t (*ncclCommWindowRegister)(ncclComm_t comm, void* memory, size_t bytes, ncclWindow_t* window, int flags);
  ncclResult_t (*ncclCommWindowDeregister)(ncclComm_t comm, ncclWindow_t window);
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_NCCL_ABI_H_
