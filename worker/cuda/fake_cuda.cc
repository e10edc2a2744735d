#include "worker/cuda/fake_cuda.h"

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <utility>

#include "worker/cuda/fake_cuda_memory.h"
#include "worker/cuda/fake_cuda_module.h"
#include "worker/cuda/fake_cuda_stream.h"

namespace farandole::worker::cuda {

struct CUctx_st {
  CUdevice device;
};

namespace {

constexpr int kDevicesMax = 8;

thread_local CUcontext current_context = nullptr;

// Null is the legacy default stream, to which no other stream gives way here.
CUstream Resolve(CUstream stream) {
  static auto* const standard = new CUstream_st(0);
  return stream == nullptr ? standard : stream;
}

CUresult Launch(const char* name, CUstream stream, void** arguments) {
  const CUfunction function = FakeCudaKernels::Get().Find(name);
  if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
  function->Launch(Resolve(stream), arguments);
  return CUDA_SUCCESS;
}

FakeCuda& State() {
  static FakeCuda state = [] {
    FakeCuda made;
    made.on_device = [](CUdeviceptr pointer) { return FakeCudaMemory::Get().OnDevice(pointer); };
    made.add_kernel = [](const char* name, FakeKernel kernel, const std::vector<size_t>& sizes) {
      FakeCudaKernels::Get().Add(name, {kernel, sizes});
    };
    made.launch = Launch;
    return made;
  }();
  return state;
}

// Of a call that needs cuInit, and of one that needs a current context, too.
CUresult Initialized() { return State().initialized ? CUDA_SUCCESS : CUDA_ERROR_NOT_INITIALIZED; }
CUresult InContext() { return current_context != nullptr ? CUDA_SUCCESS : CUDA_ERROR_INVALID_CONTEXT; }

CUresult Init(unsigned) {
  State().initialized = State().init_result == CUDA_SUCCESS;
  return State().init_result;
}

CUresult DriverGetVersion(int* version) {
  *version = State().version;
  return State().version_result;
}

// Errors that it does not know are refused, as by NVIDIA's.
CUresult ErrorText(CUresult error, const char** text, bool name) {
  static const auto* const texts = new std::map<CUresult, std::pair<const char*, const char*>>{
      {CUDA_SUCCESS, {"CUDA_SUCCESS", "no error"}},
      {CUDA_ERROR_OUT_OF_MEMORY, {"CUDA_ERROR_OUT_OF_MEMORY", "out of memory"}},
      {CUDA_ERROR_NO_DEVICE, {"CUDA_ERROR_NO_DEVICE", "no CUDA-capable device is detected"}},
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
  *context = current_context;
  return Initialized();
}

CUresult CtxSetCurrent(CUcontext context) {
  current_context = context;
  return Initialized();
}

CUresult CtxGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return InContext();
}

CUresult DevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  static CUctx_st contexts[kDevicesMax] = {{0}, {1}, {2}, {3}, {4}, {5}, {6}, {7}};
  if (device < 0 || device >= State().devices || device >= kDevicesMax) return CUDA_ERROR_INVALID_DEVICE;
  *context = &contexts[device];
  return Initialized();
}

CUresult DevicePrimaryCtxRelease(CUdevice) { return Initialized(); }

CUresult StreamCreateWithPriority(CUstream* stream, unsigned, int) {
  if (InContext() == CUDA_SUCCESS) *stream = new CUstream_st(current_context->device);
  return InContext();
}

CUresult StreamDestroy(CUstream stream) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  delete stream;
  return CUDA_SUCCESS;
}

CUresult StreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  event->MakeWait(Resolve(stream));
  return CUDA_SUCCESS;
}

CUresult StreamQuery(CUstream stream) { return Resolve(stream)->Idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }

CUresult StreamSynchronize(CUstream stream) {
  Resolve(stream)->WaitIdle();
  return CUDA_SUCCESS;
}

CUresult StreamGetDevice(CUstream stream, CUdevice* device) {
  *device = Resolve(stream)->device();
  return CUDA_SUCCESS;
}

CUresult EventCreate(CUevent* event, unsigned) {
  if (InContext() == CUDA_SUCCESS) *event = new CUevent_st();
  return InContext();
}

CUresult EventDestroy(CUevent event) {
  delete event;
  return CUDA_SUCCESS;
}

CUresult EventRecord(CUevent event, CUstream stream) {
  event->Record(Resolve(stream));
  return CUDA_SUCCESS;
}

CUresult EventQuery(CUevent event) { return event->Reached() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY; }

CUresult EventElapsedTime(float* ms, CUevent start, CUevent end) {
  if (!start->Reached() || !end->Reached()) return CUDA_ERROR_NOT_READY;
  *ms = std::chrono::duration<float, std::milli>(end->time() - start->time()).count();
  return CUDA_SUCCESS;
}

CUresult MemAlloc(CUdeviceptr* memory, size_t bytes) {
  return InContext() == CUDA_SUCCESS ? FakeCudaMemory::Get().Allocate(memory, bytes) : InContext();
}

CUresult MemFree(CUdeviceptr memory) { return FakeCudaMemory::Get().Free(memory); }

CUresult MemHostAlloc(void** memory, size_t bytes, unsigned) {
  if (InContext() == CUDA_SUCCESS) *memory = malloc(bytes);
  return InContext();
}

CUresult MemFreeHost(void* memory) {
  free(memory);
  return CUDA_SUCCESS;
}

CUresult Copy(void* to, const void* from, size_t bytes, CUstream stream) {
  if (to == nullptr || from == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Resolve(stream)->Queue([=] { memcpy(to, from, bytes); });
  return CUDA_SUCCESS;
}

CUresult MemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return Copy(FakeCudaMemory::Get().OnDevice(to), from, bytes, stream);
}

CUresult MemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(to, FakeCudaMemory::Get().OnDevice(from), bytes, stream);
}

CUresult MemcpyDtoDAsync(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(FakeCudaMemory::Get().OnDevice(to), FakeCudaMemory::Get().OnDevice(from), bytes, stream);
}

CUresult MemsetD8Async(CUdeviceptr to, unsigned char value, size_t bytes, CUstream stream) {
  char* const memory = FakeCudaMemory::Get().OnDevice(to);
  if (memory == nullptr) return CUDA_ERROR_INVALID_VALUE;
  Resolve(stream)->Queue([=] { memset(memory, value, bytes); });
  return CUDA_SUCCESS;
}

// Memory that no driver has allocated is refused, as by NVIDIA's.
CUresult PointerGetAttribute(void* value, CUpointer_attribute attribute, CUdeviceptr pointer) {
  if (FakeCudaMemory::Get().OnDevice(pointer) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  const unsigned answer = attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? unsigned{CU_MEMORYTYPE_DEVICE} : 0;
  memcpy(value, &answer, sizeof(answer));
  return CUDA_SUCCESS;
}

// As NVIDIA's: zeros, and no error, for such memory.
CUresult PointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** values, CUdeviceptr pointer) {
  for (unsigned i = 0; i < count; ++i) {
    if (PointerGetAttribute(values[i], attributes[i], pointer) != CUDA_SUCCESS) memset(values[i], 0, sizeof(unsigned));
  }
  return CUDA_SUCCESS;
}

CUresult ModuleLoadData(CUmodule* module, const void* image) {
  *module = static_cast<CUmodule>(const_cast<void*>(image));
  return InContext() == CUDA_SUCCESS ? State().module_result : InContext();
}

CUresult ModuleUnload(CUmodule) { return InContext(); }

CUresult ModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  *function = FakeCudaKernels::Get().Find(name);
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult LaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      CUstream stream, void** arguments, void**) {
  function->Launch(Resolve(stream), arguments);
  return CUDA_SUCCESS;
}

struct EntryPoint {
  void* function;
  int since;  // CUDA version
};

class EntryPoints {
 public:
  EntryPoints();
  const EntryPoint* Find(const char* name) const {
    const auto found = functions_.find(name);
    return found == functions_.end() ? nullptr : &found->second;
  }

 private:
  // The field tells the type that the function must have.
  template <typename Function>
  void Add(const char* name, Function DriverApi::*, Function function, int since = 11000) {
    functions_[name] = {reinterpret_cast<void*>(function), since};
  }
  void AddStreams();
  void AddMemory();

  std::map<std::string, EntryPoint> functions_;
};

EntryPoints::EntryPoints() {
  Add("cuInit", &DriverApi::cuInit, Init);
  Add("cuDriverGetVersion", &DriverApi::cuDriverGetVersion, DriverGetVersion);
  Add("cuGetErrorName", &DriverApi::cuGetErrorName, GetErrorName);
  Add("cuGetErrorString", &DriverApi::cuGetErrorString, GetErrorString);
  Add("cuDeviceGetCount", &DriverApi::cuDeviceGetCount, DeviceGetCount);
  Add("cuDeviceGet", &DriverApi::cuDeviceGet, DeviceGet);
  Add("cuDeviceGetName", &DriverApi::cuDeviceGetName, DeviceGetName);
  Add("cuDeviceGetAttribute", &DriverApi::cuDeviceGetAttribute, DeviceGetAttribute);
  Add("cuDeviceGetUuid", &DriverApi::cuDeviceGetUuid, DeviceGetUuid);
  Add("cuCtxGetCurrent", &DriverApi::cuCtxGetCurrent, CtxGetCurrent);
  Add("cuCtxSetCurrent", &DriverApi::cuCtxSetCurrent, CtxSetCurrent);
  Add("cuCtxGetStreamPriorityRange", &DriverApi::cuCtxGetStreamPriorityRange, CtxGetStreamPriorityRange);
  Add("cuDevicePrimaryCtxRetain", &DriverApi::cuDevicePrimaryCtxRetain, DevicePrimaryCtxRetain);
  Add("cuDevicePrimaryCtxRelease", &DriverApi::cuDevicePrimaryCtxRelease, DevicePrimaryCtxRelease);
  AddStreams();
  AddMemory();
}

void EntryPoints::AddStreams() {
  Add("cuStreamCreateWithPriority", &DriverApi::cuStreamCreateWithPriority, StreamCreateWithPriority);
  Add("cuStreamDestroy", &DriverApi::cuStreamDestroy, StreamDestroy);
  Add("cuStreamWaitEvent", &DriverApi::cuStreamWaitEvent, StreamWaitEvent);
  Add("cuStreamQuery", &DriverApi::cuStreamQuery, StreamQuery);
  Add("cuStreamSynchronize", &DriverApi::cuStreamSynchronize, StreamSynchronize);
  Add("cuStreamGetDevice", &DriverApi::cuStreamGetDevice, StreamGetDevice, 12080);
  Add("cuEventCreate", &DriverApi::cuEventCreate, EventCreate);
  Add("cuEventDestroy", &DriverApi::cuEventDestroy, EventDestroy);
  Add("cuEventRecord", &DriverApi::cuEventRecord, EventRecord);
  Add("cuEventQuery", &DriverApi::cuEventQuery, EventQuery);
  Add("cuEventElapsedTime", &DriverApi::cuEventElapsedTime, EventElapsedTime);
  Add("cuModuleLoadData", &DriverApi::cuModuleLoadData, ModuleLoadData);
  Add("cuModuleUnload", &DriverApi::cuModuleUnload, ModuleUnload);
  Add("cuModuleGetFunction", &DriverApi::cuModuleGetFunction, ModuleGetFunction);
  Add("cuLaunchKernel", &DriverApi::cuLaunchKernel, LaunchKernel);
}

void EntryPoints::AddMemory() {
  Add("cuMemAlloc", &DriverApi::cuMemAlloc, MemAlloc);
  Add("cuMemFree", &DriverApi::cuMemFree, MemFree);
  Add("cuMemHostAlloc", &DriverApi::cuMemHostAlloc, MemHostAlloc);
  Add("cuMemFreeHost", &DriverApi::cuMemFreeHost, MemFreeHost);
  Add("cuMemcpyHtoDAsync", &DriverApi::cuMemcpyHtoDAsync, MemcpyHtoDAsync);
  Add("cuMemcpyDtoHAsync", &DriverApi::cuMemcpyDtoHAsync, MemcpyDtoHAsync);
  Add("cuMemcpyDtoDAsync", &DriverApi::cuMemcpyDtoDAsync, MemcpyDtoDAsync);
  Add("cuMemsetD8Async", &DriverApi::cuMemsetD8Async, MemsetD8Async);
  Add("cuPointerGetAttribute", &DriverApi::cuPointerGetAttribute, PointerGetAttribute);
  Add("cuPointerGetAttributes", &DriverApi::cuPointerGetAttributes, PointerGetAttributes);
}

}  // namespace

extern "C" {

FakeCuda* fake_cuda() { return &State(); }

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int cuda_version, uint64_t,
                             CUdriverProcAddressQueryResult* status) {
  static const auto* const all = new EntryPoints();
  const EntryPoint* const entry = all->Find(symbol);
  const char* const missing = State().missing;
  *function = nullptr;
  *status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (entry == nullptr || (missing != nullptr && strcmp(symbol, missing) == 0)) return CUDA_ERROR_NOT_FOUND;
  *status = CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT;
  // NVIDIA's answers with success here, and with the status and no function.
  if (entry->since > cuda_version || entry->since > State().version) return CUDA_SUCCESS;
  *status = CU_GET_PROC_ADDRESS_SUCCESS;
  *function = entry->function;
  return CUDA_SUCCESS;
}

}  // extern "C"

}  // namespace farandole::worker::cuda
