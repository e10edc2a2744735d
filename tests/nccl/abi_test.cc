// NVIDIA's headers come first: what they rename by macros is then renamed in ours, too.
#include <cuda.h>
#include <nccl.h>
// A macro there, a constant here.
constexpr unsigned kPortable = CU_MEMHOSTALLOC_PORTABLE;
#undef CU_MEMHOSTALLOC_PORTABLE

#include <gtest/gtest.h>

#include <type_traits>

#include "worker/cuda/driver_abi.h"
#include "worker/cuda/nccl_abi.h"

namespace farandole::nccl {
namespace {

namespace ours = worker::cuda;

// How a value is passed: types of equal shape are the same to a caller.
template <typename Theirs, typename Ours>
constexpr bool kSameValue = sizeof(Theirs) == sizeof(Ours) &&
                            std::is_pointer_v<Theirs> == std::is_pointer_v<Ours>&& std::is_floating_point_v<Theirs> ==
                                std::is_floating_point_v<Ours>&& std::is_class_v<Theirs> == std::is_class_v<Ours>;

template <typename Theirs, typename Ours>
constexpr bool kSame = false;
template <typename TheirResult, typename... Theirs, typename OurResult, typename... Ours>
constexpr bool kSame<TheirResult (*)(Theirs...), OurResult (*)(Ours...)> = [] {
  if constexpr (sizeof...(Theirs) == sizeof...(Ours)) {
    return kSameValue<TheirResult, OurResult> && (kSameValue<Theirs, Ours> && ...);
  }
  return false;
}();

TEST(Abi, FunctionsOfTheDriver) {
  EXPECT_TRUE((kSame<decltype(&::cuInit), decltype(ours::DriverApi::cuInit)>));
  EXPECT_TRUE((kSame<decltype(&::cuDriverGetVersion), decltype(ours::DriverApi::cuDriverGetVersion)>));
  EXPECT_TRUE((kSame<decltype(&::cuGetErrorName), decltype(ours::DriverApi::cuGetErrorName)>));
  EXPECT_TRUE((kSame<decltype(&::cuGetErrorString), decltype(ours::DriverApi::cuGetErrorString)>));
  EXPECT_TRUE((kSame<decltype(&::cuDeviceGetCount), decltype(ours::DriverApi::cuDeviceGetCount)>));
  EXPECT_TRUE((kSame<decltype(&::cuDeviceGet), decltype(ours::DriverApi::cuDeviceGet)>));
  EXPECT_TRUE((kSame<decltype(&::cuDeviceGetName), decltype(ours::DriverApi::cuDeviceGetName)>));
  EXPECT_TRUE((kSame<decltype(&::cuDeviceGetAttribute), decltype(ours::DriverApi::cuDeviceGetAttribute)>));
  EXPECT_TRUE((kSame<decltype(&::cuDeviceGetUuid), decltype(ours::DriverApi::cuDeviceGetUuid)>));
  EXPECT_TRUE((kSame<decltype(&::cuCtxGetCurrent), decltype(ours::DriverApi::cuCtxGetCurrent)>));
  EXPECT_TRUE((kSame<decltype(&::cuCtxSetCurrent), decltype(ours::DriverApi::cuCtxSetCurrent)>));
  EXPECT_TRUE(
      (kSame<decltype(&::cuCtxGetStreamPriorityRange), decltype(ours::DriverApi::cuCtxGetStreamPriorityRange)>));
  EXPECT_TRUE((kSame<decltype(&::cuDevicePrimaryCtxRetain), decltype(ours::DriverApi::cuDevicePrimaryCtxRetain)>));
  EXPECT_TRUE((kSame<decltype(&::cuDevicePrimaryCtxRelease), decltype(ours::DriverApi::cuDevicePrimaryCtxRelease)>));
  EXPECT_TRUE((kSame<decltype(&::cuStreamCreateWithPriority), decltype(ours::DriverApi::cuStreamCreateWithPriority)>));
  EXPECT_TRUE((kSame<decltype(&::cuStreamDestroy), decltype(ours::DriverApi::cuStreamDestroy)>));
  EXPECT_TRUE((kSame<decltype(&::cuStreamWaitEvent), decltype(ours::DriverApi::cuStreamWaitEvent)>));
  EXPECT_TRUE((kSame<decltype(&::cuStreamQuery), decltype(ours::DriverApi::cuStreamQuery)>));
  EXPECT_TRUE((kSame<decltype(&::cuStreamIsCapturing), decltype(ours::DriverApi::cuStreamIsCapturing)>));
  EXPECT_TRUE((kSame<decltype(&::cuStreamSynchronize), decltype(ours::DriverApi::cuStreamSynchronize)>));
  EXPECT_TRUE((kSame<decltype(&::cuThreadExchangeStreamCaptureMode),
                     decltype(ours::DriverApi::cuThreadExchangeStreamCaptureMode)>));
  EXPECT_TRUE((kSame<decltype(&::cuStreamGetDevice), decltype(ours::DriverApi::cuStreamGetDevice)>));
  EXPECT_TRUE((kSame<decltype(&::cuEventCreate), decltype(ours::DriverApi::cuEventCreate)>));
  EXPECT_TRUE((kSame<decltype(&::cuEventDestroy), decltype(ours::DriverApi::cuEventDestroy)>));
  EXPECT_TRUE((kSame<decltype(&::cuEventRecord), decltype(ours::DriverApi::cuEventRecord)>));
  EXPECT_TRUE((kSame<decltype(&::cuEventQuery), decltype(ours::DriverApi::cuEventQuery)>));
  EXPECT_TRUE((kSame<decltype(&::cuEventElapsedTime), decltype(ours::DriverApi::cuEventElapsedTime)>));
  EXPECT_TRUE((kSame<decltype(&::cuMemGetInfo), decltype(ours::DriverApi::cuMemGetInfo)>));
  EXPECT_TRUE((kSame<decltype(&::cuMemAlloc), decltype(ours::DriverApi::cuMemAlloc)>));
  EXPECT_TRUE((kSame<decltype(&::cuMemFree), decltype(ours::DriverApi::cuMemFree)>));
  EXPECT_TRUE((kSame<decltype(&::cuMemAllocAsync), decltype(ours::DriverApi::cuMemAllocAsync)>));
  EXPECT_TRUE((kSame<decltype(&::cuMemFreeAsync), decltype(ours::DriverApi::cuMemFreeAsync)>));
  EXPECT_TRUE((kSame<decltype(&::cuMemHostAlloc), decltype(ours::DriverApi::cuMemHostAlloc)>));
  EXPECT_TRUE((kSame<decltype(&::cuMemFreeHost), decltype(ours::DriverApi::cuMemFreeHost)>));
  EXPECT_TRUE((kSame<decltype(&::cuMemcpyHtoDAsync), decltype(ours::DriverApi::cuMemcpyHtoDAsync)>));
  EXPECT_TRUE((kSame<decltype(&::cuMemcpyDtoHAsync), decltype(ours::DriverApi::cuMemcpyDtoHAsync)>));
  EXPECT_TRUE((kSame<decltype(&::cuMemcpyDtoDAsync), decltype(ours::DriverApi::cuMemcpyDtoDAsync)>));
  EXPECT_TRUE((kSame<decltype(&::cuMemsetD8Async), decltype(ours::DriverApi::cuMemsetD8Async)>));
  EXPECT_TRUE((kSame<decltype(&::cuPointerGetAttribute), decltype(ours::DriverApi::cuPointerGetAttribute)>));
  EXPECT_TRUE((kSame<decltype(&::cuPointerGetAttributes), decltype(ours::DriverApi::cuPointerGetAttributes)>));
  EXPECT_TRUE((kSame<decltype(&::cuModuleLoadData), decltype(ours::DriverApi::cuModuleLoadData)>));
  EXPECT_TRUE((kSame<decltype(&::cuModuleUnload), decltype(ours::DriverApi::cuModuleUnload)>));
  EXPECT_TRUE((kSame<decltype(&::cuModuleGetFunction), decltype(ours::DriverApi::cuModuleGetFunction)>));
  EXPECT_TRUE((kSame<decltype(&::cuLaunchKernel), decltype(ours::DriverApi::cuLaunchKernel)>));
  EXPECT_TRUE((kSame<decltype(&::cuGetProcAddress), ours::GetProcAddress*>));
}

TEST(Abi, FunctionsOfNccl) {
  EXPECT_TRUE((kSame<decltype(&::ncclGetVersion), decltype(ours::NcclApi::ncclGetVersion)>));
  EXPECT_TRUE((kSame<decltype(&::ncclGetErrorString), decltype(ours::NcclApi::ncclGetErrorString)>));
  EXPECT_TRUE((kSame<decltype(&::ncclGetLastError), decltype(ours::NcclApi::ncclGetLastError)>));
  EXPECT_TRUE((kSame<decltype(&::ncclGetUniqueId), decltype(ours::NcclApi::ncclGetUniqueId)>));
  EXPECT_TRUE((kSame<decltype(&::ncclCommInitRankConfig), decltype(ours::NcclApi::ncclCommInitRankConfig)>));
  EXPECT_TRUE((kSame<decltype(&::ncclCommSplit), decltype(ours::NcclApi::ncclCommSplit)>));
  EXPECT_TRUE((kSame<decltype(&::ncclCommFinalize), decltype(ours::NcclApi::ncclCommFinalize)>));
  EXPECT_TRUE((kSame<decltype(&::ncclCommDestroy), decltype(ours::NcclApi::ncclCommDestroy)>));
  EXPECT_TRUE((kSame<decltype(&::ncclCommAbort), decltype(ours::NcclApi::ncclCommAbort)>));
  EXPECT_TRUE((kSame<decltype(&::ncclCommGetAsyncError), decltype(ours::NcclApi::ncclCommGetAsyncError)>));
  EXPECT_TRUE((kSame<decltype(&::ncclAllReduce), decltype(ours::NcclApi::ncclAllReduce)>));
  EXPECT_TRUE((kSame<decltype(&::ncclReduceScatter), decltype(ours::NcclApi::ncclReduceScatter)>));
  EXPECT_TRUE((kSame<decltype(&::ncclAllGather), decltype(ours::NcclApi::ncclAllGather)>));
  EXPECT_TRUE((kSame<decltype(&::ncclBroadcast), decltype(ours::NcclApi::ncclBroadcast)>));
  EXPECT_TRUE((kSame<decltype(&::ncclSend), decltype(ours::NcclApi::ncclSend)>));
  EXPECT_TRUE((kSame<decltype(&::ncclRecv), decltype(ours::NcclApi::ncclRecv)>));
  EXPECT_TRUE((kSame<decltype(&::ncclGroupStart), decltype(ours::NcclApi::ncclGroupStart)>));
  EXPECT_TRUE((kSame<decltype(&::ncclGroupEnd), decltype(ours::NcclApi::ncclGroupEnd)>));
  EXPECT_TRUE((kSame<decltype(&::ncclRedOpCreatePreMulSum), decltype(ours::NcclApi::ncclRedOpCreatePreMulSum)>));
  EXPECT_TRUE((kSame<decltype(&::ncclRedOpDestroy), decltype(ours::NcclApi::ncclRedOpDestroy)>));
  EXPECT_TRUE((kSame<decltype(&::ncclCommRegister), decltype(ours::NcclApi::ncclCommRegister)>));
  EXPECT_TRUE((kSame<decltype(&::ncclCommDeregister), decltype(ours::NcclApi::ncclCommDeregister)>));
  EXPECT_TRUE((kSame<decltype(&::ncclMemAlloc), decltype(ours::NcclApi::ncclMemAlloc)>));
  EXPECT_TRUE((kSame<decltype(&::ncclMemFree), decltype(ours::NcclApi::ncclMemFree)>));
  EXPECT_TRUE((kSame<decltype(&::ncclCommShrink), decltype(ours::NcclApi::ncclCommShrink)>));
  EXPECT_TRUE((kSame<decltype(&::ncclCommWindowRegister), decltype(ours::NcclApi::ncclCommWindowRegister)>));
  EXPECT_TRUE((kSame<decltype(&::ncclCommWindowDeregister), decltype(ours::NcclApi::ncclCommWindowDeregister)>));
}

template <typename Value>
constexpr long long Number(Value value) {
  return static_cast<long long>(value);
}

TEST(Abi, ConstantsOfTheDriver) {
  EXPECT_EQ(Number(::CUDA_SUCCESS), Number(ours::CUDA_SUCCESS));
  EXPECT_EQ(Number(::CUDA_ERROR_INVALID_VALUE), Number(ours::CUDA_ERROR_INVALID_VALUE));
  EXPECT_EQ(Number(::CUDA_ERROR_OUT_OF_MEMORY), Number(ours::CUDA_ERROR_OUT_OF_MEMORY));
  EXPECT_EQ(Number(::CUDA_ERROR_NOT_INITIALIZED), Number(ours::CUDA_ERROR_NOT_INITIALIZED));
  EXPECT_EQ(Number(::CUDA_ERROR_DEINITIALIZED), Number(ours::CUDA_ERROR_DEINITIALIZED));
  EXPECT_EQ(Number(::CUDA_ERROR_NO_DEVICE), Number(ours::CUDA_ERROR_NO_DEVICE));
  EXPECT_EQ(Number(::CUDA_ERROR_INVALID_DEVICE), Number(ours::CUDA_ERROR_INVALID_DEVICE));
  EXPECT_EQ(Number(::CUDA_ERROR_INVALID_IMAGE), Number(ours::CUDA_ERROR_INVALID_IMAGE));
  EXPECT_EQ(Number(::CUDA_ERROR_INVALID_CONTEXT), Number(ours::CUDA_ERROR_INVALID_CONTEXT));
  EXPECT_EQ(Number(::CUDA_ERROR_NO_BINARY_FOR_GPU), Number(ours::CUDA_ERROR_NO_BINARY_FOR_GPU));
  EXPECT_EQ(Number(::CUDA_ERROR_ECC_UNCORRECTABLE), Number(ours::CUDA_ERROR_ECC_UNCORRECTABLE));
  EXPECT_EQ(Number(::CUDA_ERROR_INVALID_HANDLE), Number(ours::CUDA_ERROR_INVALID_HANDLE));
  EXPECT_EQ(Number(::CUDA_ERROR_NOT_FOUND), Number(ours::CUDA_ERROR_NOT_FOUND));
  EXPECT_EQ(Number(::CUDA_ERROR_NOT_READY), Number(ours::CUDA_ERROR_NOT_READY));
  EXPECT_EQ(Number(::CUDA_ERROR_ILLEGAL_ADDRESS), Number(ours::CUDA_ERROR_ILLEGAL_ADDRESS));
  EXPECT_EQ(Number(::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES), Number(ours::CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES));
  EXPECT_EQ(Number(::CUDA_ERROR_CONTEXT_IS_DESTROYED), Number(ours::CUDA_ERROR_CONTEXT_IS_DESTROYED));
  EXPECT_EQ(Number(::CUDA_ERROR_LAUNCH_FAILED), Number(ours::CUDA_ERROR_LAUNCH_FAILED));
  EXPECT_EQ(Number(::CUDA_ERROR_NOT_SUPPORTED), Number(ours::CUDA_ERROR_NOT_SUPPORTED));
  EXPECT_EQ(Number(::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED), Number(ours::CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED));
  EXPECT_EQ(Number(::CUDA_ERROR_UNKNOWN), Number(ours::CUDA_ERROR_UNKNOWN));
  EXPECT_EQ(Number(::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT), Number(ours::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT));
  EXPECT_EQ(Number(::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR),
            Number(ours::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR));
  EXPECT_EQ(Number(::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR),
            Number(ours::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR));
  EXPECT_EQ(Number(::CU_POINTER_ATTRIBUTE_MEMORY_TYPE), Number(ours::CU_POINTER_ATTRIBUTE_MEMORY_TYPE));
  EXPECT_EQ(Number(::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL), Number(ours::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL));
  EXPECT_EQ(Number(::CU_MEMORYTYPE_HOST), Number(ours::CU_MEMORYTYPE_HOST));
  EXPECT_EQ(Number(::CU_MEMORYTYPE_DEVICE), Number(ours::CU_MEMORYTYPE_DEVICE));
  EXPECT_EQ(Number(::CU_GET_PROC_ADDRESS_SUCCESS), Number(ours::CU_GET_PROC_ADDRESS_SUCCESS));
  EXPECT_EQ(Number(::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND), Number(ours::CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND));
  EXPECT_EQ(Number(::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT),
            Number(ours::CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT));
  EXPECT_EQ(Number(::CU_GET_PROC_ADDRESS_DEFAULT), Number(ours::CU_GET_PROC_ADDRESS_DEFAULT));
  EXPECT_EQ(Number(::CU_STREAM_NON_BLOCKING), Number(ours::CU_STREAM_NON_BLOCKING));
  EXPECT_EQ(Number(::CU_EVENT_DEFAULT), Number(ours::CU_EVENT_DEFAULT));
  EXPECT_EQ(Number(::CU_STREAM_CAPTURE_STATUS_NONE), Number(ours::CU_STREAM_CAPTURE_STATUS_NONE));
  EXPECT_EQ(Number(::CU_STREAM_CAPTURE_STATUS_ACTIVE), Number(ours::CU_STREAM_CAPTURE_STATUS_ACTIVE));
  EXPECT_EQ(Number(::CU_STREAM_CAPTURE_MODE_GLOBAL), Number(ours::CU_STREAM_CAPTURE_MODE_GLOBAL));
  EXPECT_EQ(Number(::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL), Number(ours::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  EXPECT_EQ(Number(::CU_STREAM_CAPTURE_MODE_RELAXED), Number(ours::CU_STREAM_CAPTURE_MODE_RELAXED));
  EXPECT_EQ(Number(::CU_STREAM_CAPTURE_STATUS_INVALIDATED), Number(ours::CU_STREAM_CAPTURE_STATUS_INVALIDATED));
  EXPECT_EQ(Number(::CU_EVENT_DISABLE_TIMING), Number(ours::CU_EVENT_DISABLE_TIMING));
  EXPECT_EQ(kPortable, ours::CU_MEMHOSTALLOC_PORTABLE);
  EXPECT_EQ(sizeof(::CUuuid), sizeof(ours::CUuuid));
}

TEST(Abi, ConstantsOfNccl) {
  EXPECT_EQ(Number(::ncclSuccess), Number(ours::ncclSuccess));
  EXPECT_EQ(Number(::ncclUnhandledCudaError), Number(ours::ncclUnhandledCudaError));
  EXPECT_EQ(Number(::ncclSystemError), Number(ours::ncclSystemError));
  EXPECT_EQ(Number(::ncclInternalError), Number(ours::ncclInternalError));
  EXPECT_EQ(Number(::ncclInvalidArgument), Number(ours::ncclInvalidArgument));
  EXPECT_EQ(Number(::ncclInvalidUsage), Number(ours::ncclInvalidUsage));
  EXPECT_EQ(Number(::ncclRemoteError), Number(ours::ncclRemoteError));
  EXPECT_EQ(Number(::ncclInProgress), Number(ours::ncclInProgress));
  EXPECT_EQ(Number(::ncclSum), Number(ours::ncclSum));
  EXPECT_EQ(Number(::ncclProd), Number(ours::ncclProd));
  EXPECT_EQ(Number(::ncclMax), Number(ours::ncclMax));
  EXPECT_EQ(Number(::ncclMin), Number(ours::ncclMin));
  EXPECT_EQ(Number(::ncclAvg), Number(ours::ncclAvg));
  EXPECT_EQ(Number(::ncclInt8), Number(ours::ncclInt8));
  EXPECT_EQ(Number(::ncclUint8), Number(ours::ncclUint8));
  EXPECT_EQ(Number(::ncclInt32), Number(ours::ncclInt32));
  EXPECT_EQ(Number(::ncclUint32), Number(ours::ncclUint32));
  EXPECT_EQ(Number(::ncclInt64), Number(ours::ncclInt64));
  EXPECT_EQ(Number(::ncclUint64), Number(ours::ncclUint64));
  EXPECT_EQ(Number(::ncclFloat16), Number(ours::ncclFloat16));
  EXPECT_EQ(Number(::ncclFloat32), Number(ours::ncclFloat32));
  EXPECT_EQ(Number(::ncclFloat64), Number(ours::ncclFloat64));
  EXPECT_EQ(Number(::ncclBfloat16), Number(ours::ncclBfloat16));
  EXPECT_EQ(Number(::ncclScalarDevice), Number(ours::ncclScalarDevice));
  EXPECT_EQ(Number(::ncclScalarHostImmediate), Number(ours::ncclScalarHostImmediate));
  EXPECT_EQ(sizeof(::ncclUniqueId), sizeof(ours::ncclUniqueId));
}

// Ours ends earlier.
TEST(Abi, ConfigurationOfNccl) {
  const ::ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const ours::ncclConfig_t config;
  EXPECT_EQ(theirs.magic, config.magic);
  EXPECT_EQ(theirs.blocking, config.blocking);
  EXPECT_EQ(theirs.netName, config.netName);
  EXPECT_EQ(theirs.splitShare, config.splitShare);
  EXPECT_EQ(offsetof(::ncclConfig_t, version), offsetof(ours::ncclConfig_t, version));
  EXPECT_EQ(offsetof(::ncclConfig_t, blocking), offsetof(ours::ncclConfig_t, blocking));
  EXPECT_EQ(offsetof(::ncclConfig_t, cgaClusterSize), offsetof(ours::ncclConfig_t, cgaClusterSize));
  EXPECT_EQ(offsetof(::ncclConfig_t, minCTAs), offsetof(ours::ncclConfig_t, minCTAs));
  EXPECT_EQ(offsetof(::ncclConfig_t, maxCTAs), offsetof(ours::ncclConfig_t, maxCTAs));
  EXPECT_EQ(offsetof(::ncclConfig_t, netName), offsetof(ours::ncclConfig_t, netName));
  EXPECT_EQ(offsetof(::ncclConfig_t, splitShare), offsetof(ours::ncclConfig_t, splitShare));
}

}  // namespace
}  // namespace farandole::nccl
