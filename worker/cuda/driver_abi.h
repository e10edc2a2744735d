#ifndef FARANDOLE_WORKER_CUDA_DRIVER_ABI_H_
#define FARANDOLE_WORKER_CUDA_DRIVER_ABI_H_

#include <cstddef>
#include <cstdint>

// What Farandole uses of the CUDA driver's ABI, under NVIDIA's names, so that NVIDIA's manual explains it. Declared
// here because no NVIDIA header is needed to build (docs/decisions/019-gpu-libraries.md).
namespace farandole::worker::cuda {

using CUdevice = int;  // ordinal
using CUdeviceptr = unsigned long long;
using CUcontext = struct CUctx_st*;
using CUstream = struct CUstream_st*;
using CUevent = struct CUevent_st*;
using CUmodule = struct CUmod_st*;
using CUfunction = struct CUfunc_st*;

struct CUuuid {
  char bytes[16];
};

// Drivers return others, too: cuGetErrorName knows all of its own.
enum CUresult : int {
  CUDA_SUCCESS = 0,
  CUDA_ERROR_INVALID_VALUE = 1,
  CUDA_ERROR_OUT_OF_MEMORY = 2,
  CUDA_ERROR_NOT_INITIALIZED = 3,
  CUDA_ERROR_DEINITIALIZED = 4,
  CUDA_ERROR_NO_DEVICE = 100,
  CUDA_ERROR_INVALID_DEVICE = 101,
  CUDA_ERROR_INVALID_IMAGE = 200,
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_NO_BINARY_FOR_GPU = 209,
  CUDA_ERROR_ECC_UNCORRECTABLE = 214,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES = 701,
  CUDA_ERROR_CONTEXT_IS_DESTROYED = 709,
  CUDA_ERROR_LAUNCH_FAILED = 719,
  CUDA_ERROR_NOT_SUPPORTED = 801,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_UNKNOWN = 999,
};

enum CUdevice_attribute : int {
  CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
};

enum CUpointer_attribute : int {
  CU_POINTER_ATTRIBUTE_MEMORY_TYPE = 2,     // to a CUmemorytype
  CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL = 9,  // to an int
};

enum CUmemorytype : unsigned { CU_MEMORYTYPE_HOST = 1, CU_MEMORYTYPE_DEVICE = 2 };

enum CUdriverProcAddressQueryResult : int {
  CU_GET_PROC_ADDRESS_SUCCESS = 0,
  CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND = 1,
  CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT = 2,
};

enum CUstreamCaptureStatus : int {
  CU_STREAM_CAPTURE_STATUS_NONE = 0,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
};

enum CUstreamCaptureMode : int {
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0,
  CU_STREAM_CAPTURE_MODE_THREAD_LOCAL = 1,
  CU_STREAM_CAPTURE_MODE_RELAXED = 2,
};

inline constexpr uint64_t CU_GET_PROC_ADDRESS_DEFAULT = 0;
inline constexpr unsigned CU_STREAM_NON_BLOCKING = 1;
// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD, which are macros of NVIDIA's. Streams of the current context that nobody
// has made: the default one, which null is, too, and one of each thread.
inline const CUstream kCuStreamLegacy = reinterpret_cast<CUstream>(1);
inline const CUstream kCuStreamPerThread = reinterpret_cast<CUstream>(2);
inline constexpr unsigned CU_EVENT_DEFAULT = 0;
inline constexpr unsigned CU_EVENT_DISABLE_TIMING = 2;
inline constexpr unsigned CU_MEMHOSTALLOC_PORTABLE = 1;

// The one entry point that is found by the loader; it hands out all others.
using GetProcAddress = CUresult(const char* symbol, void** function, int cuda_version, uint64_t flags,
                                CUdriverProcAddressQueryResult* status);

// Entry points in the form that they have in CUDA 12.0. None is null unless it says so.
struct DriverApi {
  CUresult (*cuInit)(unsigned flags);
  CUresult (*cuDriverGetVersion)(int* version);
  CUresult (*cuGetErrorName)(CUresult error, const char** text);
  CUresult (*cuGetErrorString)(CUresult error, const char** text);

  CUresult (*cuDeviceGetCount)(int* count);
  CUresult (*cuDeviceGet)(CUdevice* device, int ordinal);
  CUresult (*cuDeviceGetName)(char* name, int bytes, CUdevice device);
  CUresult (*cuDeviceGetAttribute)(int* value, CUdevice_attribute attribute, CUdevice device);
  CUresult (*cuDeviceGetUuid)(CUuuid* uuid, CUdevice device);

  CUresult (*cuCtxGetCurrent)(CUcontext* context);
  CUresult (*cuCtxSetCurrent)(CUcontext context);
  CUresult (*cuCtxGetStreamPriorityRange)(int* least, int* greatest);
  CUresult (*cuDevicePrimaryCtxRetain)(CUcontext* context, CUdevice device);
  CUresult (*cuDevicePrimaryCtxRelease)(CUdevice device);

  CUresult (*cuStreamCreateWithPriority)(CUstream* stream, unsigned flags, int priority);
  CUresult (*cuStreamDestroy)(CUstream stream);
  CUresult (*cuStreamWaitEvent)(CUstream stream, CUevent event, unsigned flags);
  CUresult (*cuStreamQuery)(CUstream stream);
  CUresult (*cuStreamIsCapturing)(CUstream stream, CUstreamCaptureStatus* status);
  CUresult (*cuStreamSynchronize)(CUstream stream);
  CUresult (*cuThreadExchangeStreamCaptureMode)(CUstreamCaptureMode* mode);
  // From CUDA 12.8 on, else null.
  CUresult (*cuStreamGetDevice)(CUstream stream, CUdevice* device);

  CUresult (*cuEventCreate)(CUevent* event, unsigned flags);
  CUresult (*cuEventDestroy)(CUevent event);
  CUresult (*cuEventRecord)(CUevent event, CUstream stream);
  CUresult (*cuEventQuery)(CUevent event);
  CUresult (*cuEventElapsedTime)(float* ms, CUevent start, CUevent end);

  CUresult (*cuMemGetInfo)(size_t* free, size_t* total);
  CUresult (*cuMemAlloc)(CUdeviceptr* memory, size_t bytes);
  CUresult (*cuMemFree)(CUdeviceptr memory);
  // In the order of a stream. Not every device has them (CUDA_ERROR_NOT_SUPPORTED).
  CUresult (*cuMemAllocAsync)(CUdeviceptr* memory, size_t bytes, CUstream stream);
  CUresult (*cuMemFreeAsync)(CUdeviceptr memory, CUstream stream);
  CUresult (*cuMemHostAlloc)(void** memory, size_t bytes, unsigned flags);
  CUresult (*cuMemFreeHost)(void* memory);
  CUresult (*cuMemcpyHtoDAsync)(CUdeviceptr to, const void* from, size_t bytes, CUstream stream);
  CUresult (*cuMemcpyDtoHAsync)(void* to, CUdeviceptr from, size_t bytes, CUstream stream);
  CUresult (*cuMemcpyDtoDAsync)(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream);
  CUresult (*cuMemsetD8Async)(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream);
  CUresult (*cuPointerGetAttribute)(void* value, CUpointer_attribute attribute, CUdeviceptr pointer);
  CUresult (*cuPointerGetAttributes)(unsigned count, CUpointer_attribute* attributes, void** values,
                                     CUdeviceptr pointer);

  CUresult (*cuModuleLoadData)(CUmodule* module, const void* image);
  CUresult (*cuModuleUnload)(CUmodule module);
  CUresult (*cuModuleGetFunction)(CUfunction* function, CUmodule module, const char* name);
  CUresult (*cuLaunchKernel)(CUfunction function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                             unsigned block_y, unsigned block_z, unsigned shared_bytes, CUstream stream,
                             void** arguments, void** extra);
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_DRIVER_ABI_H_
