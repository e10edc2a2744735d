#include "worker/cuda/fake_cuda_device.h"

#include <cstdio>
#include <map>
#include <utility>

#include "worker/cuda/driver_abi.h"
#include "worker/cuda/fake_cuda_state.h"

namespace farandole::worker::cuda {
namespace {

FakeCuda& State() { return FakeCudaState::Get(); }
CUresult Initialized() { return FakeCudaState::Initialized(); }

CUresult Init(unsigned) {
  const CUresult result = State().init_result;
  State().initialized = result == CUDA_SUCCESS;
  return result;
}

CUresult DriverGetVersion(int* version) {
  *version = State().version;
  return State().version_result;
}

// Errors that it does not know are refused, as by NVIDIA's.
CUresult ErrorText(CUresult error, const char** text, bool name) {
  static const auto* const texts = new std::map<CUresult, std::pair<const char*, const char*>>{
      {CUDA_SUCCESS, {"CUDA_SUCCESS", "no error"}},
      {CUDA_ERROR_INVALID_VALUE, {"CUDA_ERROR_INVALID_VALUE", "invalid argument"}},
      {CUDA_ERROR_OUT_OF_MEMORY, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
      {CUDA_ERROR_NOT_INITIALIZED, {"CUDA_ERROR_NOT_INITIALIZED", "initialization error"}},
      {CUDA_ERROR_DEINITIALIZED, {"CUDA_ERROR_DEINITIALIZED", "driver shutting down"}},
      {CUDA_ERROR_NO_DEVICE, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
      {CUDA_ERROR_INVALID_DEVICE, {"CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"}},
      {CUDA_ERROR_INVALID_IMAGE, {"CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"}},
      {CUDA_ERROR_INVALID_CONTEXT, {"CUDA_ERROR_INVALID_CONTEXT", "invalid device context"}},
      {CUDA_ERROR_NO_BINARY_FOR_GPU,
       {"CUDA_ERROR_NO_BINARY_FOR_GPU", "no kernel image is available for execution on the device"}},
      {CUDA_ERROR_ECC_UNCORRECTABLE, {"CUDA_ERROR_ECC_UNCORRECTABLE", "uncorrectable ECC error encountered"}},
      {CUDA_ERROR_INVALID_HANDLE, {"CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"}},
      {CUDA_ERROR_NOT_FOUND, {"CUDA_ERROR_NOT_FOUND", "named symbol not found"}},
      {CUDA_ERROR_NOT_READY, {"CUDA_ERROR_NOT_READY", "device not ready"}},
      {CUDA_ERROR_ILLEGAL_ADDRESS, {"CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"}},
      {CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES,
       {"CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES", "too many resources requested for launch"}},
      {CUDA_ERROR_CONTEXT_IS_DESTROYED, {"CUDA_ERROR_CONTEXT_IS_DESTROYED", "context is destroyed"}},
      {CUDA_ERROR_LAUNCH_FAILED, {"CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"}},
      {CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED,
       {"CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"}},
      {CUDA_ERROR_UNKNOWN, {"CUDA_ERROR_UNKNOWN", "unknown error"}},
  };
  const auto found = texts->find(error);
  if (found == texts->end()) return CUDA_ERROR_INVALID_VALUE;
  *text = name ? found->second.first : found->second.second;
  return CUDA_SUCCESS;
}

CUresult GetErrorName(CUresult error, const char** text) { return ErrorText(error, text, true); }
CUresult GetErrorString(CUresult error, const char** text) { return ErrorText(error, text, false); }

CUresult DeviceGetCount(int* count) {
  *count = State().devices;
  return Initialized();
}

CUresult DeviceGet(CUdevice* device, int ordinal) {
  *device = ordinal;
  return ordinal >= 0 && ordinal < State().devices ? Initialized() : CUDA_ERROR_INVALID_DEVICE;
}

CUresult DeviceGetName(char* name, int bytes, CUdevice device) {
  snprintf(name, static_cast<size_t>(bytes), "Fake GPU %d", device);
  return Initialized();
}

CUresult DeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice) {
  static const auto* const values = new std::map<CUdevice_attribute, int>{
      {CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 2},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 9},
      {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
  };
  const auto found = values->find(attribute);
  if (found == values->end()) return CUDA_ERROR_INVALID_VALUE;
  *value = found->second;
  return Initialized();
}

CUresult DeviceGetUuid(CUuuid* uuid, CUdevice device) {
  *uuid = {};
  uuid->bytes[0] = static_cast<char>(device + 1);
  return Initialized();
}

CUresult CtxGetCurrent(CUcontext* context) {
  *context = FakeCudaState::Context();
  return Initialized();
}

CUresult CtxSetCurrent(CUcontext context) {
  FakeCudaState::Context() = context;
  return Initialized();
}

CUresult CtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = FakeCuda::kLeastPriority;
  *greatest = FakeCuda::kGreatestPriority;
  return FakeCudaState::InContext();
}

CUresult DevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  static CUctx_st contexts[FakeCudaState::kDevicesMax] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
  if (device < 0 || device >= State().devices || device >= FakeCudaState::kDevicesMax) return CUDA_ERROR_INVALID_DEVICE;
  if (Initialized() != CUDA_SUCCESS) return Initialized();
  *context = &contexts[device];
  ++State().live_contexts;
  return CUDA_SUCCESS;
}

CUresult DevicePrimaryCtxRelease(CUdevice) {
  if (State().live_contexts == 0) return CUDA_ERROR_INVALID_CONTEXT;
  --State().live_contexts;
  return Initialized();
}

}  // namespace

void AddFakeCudaDeviceCalls(FakeCudaEntryPoints* all) {
  all->AddPlain("cuInit", &DriverApi::cuInit, Init);
  all->AddPlain("cuDriverGetVersion", &DriverApi::cuDriverGetVersion, DriverGetVersion);
  all->AddPlain("cuGetErrorName", &DriverApi::cuGetErrorName, GetErrorName);
  all->AddPlain("cuGetErrorString", &DriverApi::cuGetErrorString, GetErrorString);
  all->Add<DeviceGetCount>("cuDeviceGetCount", &DriverApi::cuDeviceGetCount);
  all->Add<DeviceGet>("cuDeviceGet", &DriverApi::cuDeviceGet);
  all->Add<DeviceGetName>("cuDeviceGetName", &DriverApi::cuDeviceGetName);
  all->Add<DeviceGetAttribute>("cuDeviceGetAttribute", &DriverApi::cuDeviceGetAttribute);
  all->Add<DeviceGetUuid>("cuDeviceGetUuid", &DriverApi::cuDeviceGetUuid);
  all->AddRelease<CtxGetCurrent>("cuCtxGetCurrent", &DriverApi::cuCtxGetCurrent);
  all->AddRelease<CtxSetCurrent>("cuCtxSetCurrent", &DriverApi::cuCtxSetCurrent);
  all->Add<CtxGetStreamPriorityRange>("cuCtxGetStreamPriorityRange", &DriverApi::cuCtxGetStreamPriorityRange);
  all->Add<DevicePrimaryCtxRetain>("cuDevicePrimaryCtxRetain", &DriverApi::cuDevicePrimaryCtxRetain);
  all->AddRelease<DevicePrimaryCtxRelease>("cuDevicePrimaryCtxRelease", &DriverApi::cuDevicePrimaryCtxRelease);
}

}  // namespace farandole::worker::cuda
