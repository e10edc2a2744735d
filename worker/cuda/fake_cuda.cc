#include "worker/cuda/fake_cuda.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "worker/cuda/fake_cuda_device.h"
#include "worker/cuda/fake_cuda_entry_points.h"
#include "worker/cuda/fake_cuda_event.h"
#include "worker/cuda/fake_cuda_memory.h"
#include "worker/cuda/fake_cuda_module.h"
#include "worker/cuda/fake_cuda_state.h"
#include "worker/cuda/fake_cuda_stream.h"

namespace farandole::worker::cuda {
namespace {

FakeCuda& State() { return FakeCudaState::Get(); }
CUresult InContext() { return FakeCudaState::InContext(); }
CUresult BesideCapture() { return FakeCudaState::BesideCapture(); }
// Of a call that needs a context, and that a graph would lack.
CUresult InContextBesideCapture() { return InContext() == CUDA_SUCCESS ? BesideCapture() : InContext(); }
CUstream Resolve(CUstream stream) { return CUstream_st::Resolve(stream); }

// Takes the nearest priority that there is, as NVIDIA's.
CUresult StreamCreateWithPriority(CUstream* stream, unsigned flags, int priority) {
  if (InContext() != CUDA_SUCCESS) return InContext();
  *stream = new CUstream_st(FakeCudaState::Device());
  State().stream_flags = flags;
  State().stream_priority = std::clamp(priority, FakeCuda::kGreatestPriority, FakeCuda::kLeastPriority);
  ++State().live_streams;
  return CUDA_SUCCESS;
}

CUresult StreamDestroy(CUstream stream) {
  if (stream == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  CUstream_st::Retire(stream);
  --State().live_streams;
  return CUDA_SUCCESS;
}

CUresult StreamWaitEvent(CUstream stream, CUevent event, unsigned) {
  if (stream != nullptr && stream == State().waiting) ++State().stream_waits;
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  event->MakeWait(Resolve(stream));
  return CUDA_SUCCESS;
}

CUresult StreamQuery(CUstream stream) {
  if (const CUresult refused = BesideCapture(); refused != CUDA_SUCCESS) return refused;
  return Resolve(stream)->Idle() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult StreamSynchronize(CUstream stream) {
  ++State().stream_synchronizes;
  Resolve(stream)->WaitIdle();
  return CUDA_SUCCESS;
}

CUresult StreamIsCapturing(CUstream, CUstreamCaptureStatus* status) {
  *status = State().capturing ? CU_STREAM_CAPTURE_STATUS_ACTIVE : CU_STREAM_CAPTURE_STATUS_NONE;
  return CUDA_SUCCESS;
}

CUresult ThreadExchangeStreamCaptureMode(CUstreamCaptureMode* mode) {
  std::swap(*mode, FakeCudaState::CaptureMode());
  return CUDA_SUCCESS;
}

CUresult StreamGetDevice(CUstream stream, CUdevice* device) {
  *device = Resolve(stream)->device();
  return CUDA_SUCCESS;
}

CUresult EventCreate(CUevent* event, unsigned flags) {
  if (InContext() != CUDA_SUCCESS) return InContext();
  *event = new CUevent_st(FakeCudaState::Device(), (flags & CU_EVENT_DISABLE_TIMING) == 0);
  ++State().live_events;
  return CUDA_SUCCESS;
}

CUresult EventDestroy(CUevent event) {
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  delete event;
  --State().live_events;
  return CUDA_SUCCESS;
}

// On a stream of its own device only; others may wait for it.
CUresult EventRecord(CUevent event, CUstream stream) {
  if (event == nullptr || event->device() != Resolve(stream)->device()) return CUDA_ERROR_INVALID_HANDLE;
  FakeCuda& state = FakeCudaState::Get();
  if (stream != nullptr && state.full == stream) {
    ++state.held_up;
    while (state.full == stream) std::this_thread::yield();
    --state.held_up;
  }
  event->Record(Resolve(stream));
  return CUDA_SUCCESS;
}

CUresult EventQuery(CUevent event) {
  if (event == nullptr) return CUDA_ERROR_INVALID_HANDLE;
  if (const CUresult refused = BesideCapture(); refused != CUDA_SUCCESS) return refused;
  return event->Reached() ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult EventElapsedTime(float* ms, CUevent start, CUevent end) {
  if (!start->IsTimed() || !end->IsTimed()) return CUDA_ERROR_INVALID_HANDLE;
  if (!start->Reached() || !end->Reached()) return CUDA_ERROR_NOT_READY;
  *ms = std::chrono::duration<float, std::milli>(end->time() - start->time()).count();
  return CUDA_SUCCESS;
}

CUresult MemAlloc(CUdeviceptr* memory, size_t bytes) {
  if (const CUresult refused = InContextBesideCapture(); refused != CUDA_SUCCESS) return refused;
  return FakeCudaMemory::Get().Allocate(memory, bytes, FakeCudaState::Device());
}

CUresult MemFree(CUdeviceptr memory) {
  const CUresult refused = BesideCapture();
  return refused == CUDA_SUCCESS ? FakeCudaMemory::Get().Free(memory) : refused;
}

// Unlimited ones have as much as a large one.
CUresult MemGetInfo(size_t* free, size_t* total) {
  if (FakeCudaState::Context() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *total = std::min<size_t>(State().device_bytes_max, size_t{80} << 30);
  *free = *total - std::min<size_t>(*total, State().live_device_bytes);
  return CUDA_SUCCESS;
}

// The memory is there at once, and goes in the order of the stream.
CUresult MemAllocAsync(CUdeviceptr* memory, size_t bytes, CUstream stream) {
  if (State().async_memory_result != CUDA_SUCCESS) return State().async_memory_result;
  return FakeCudaMemory::Get().Allocate(memory, bytes, CUstream_st::Resolve(stream)->device());
}

CUresult MemFreeAsync(CUdeviceptr memory, CUstream stream) {
  if (FakeCudaMemory::Get().OnDevice(memory) == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (!CUstream_st::Exists(stream)) return CUDA_ERROR_INVALID_HANDLE;
  CUstream_st::Resolve(stream)->Queue([memory] { FakeCudaMemory::Get().Free(memory); });
  return CUDA_SUCCESS;
}

CUresult MemHostAlloc(void** memory, size_t bytes, unsigned) {
  const CUresult refused = InContextBesideCapture();
  return refused == CUDA_SUCCESS ? FakeCudaMemory::Get().AllocateHost(memory, bytes) : refused;
}

CUresult MemFreeHost(void* memory) {
  const CUresult refused = BesideCapture();
  return refused == CUDA_SUCCESS ? FakeCudaMemory::Get().FreeHost(memory) : refused;
}

// `done` counts those that are done; null: nobody asks.
CUresult Copy(void* to, const void* from, size_t bytes, CUstream stream, std::atomic<int>* done = nullptr) {
  if (to == nullptr || from == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (done != nullptr) ++State().copies_queued;
  Resolve(stream)->Queue([=] {
    memcpy(to, from, bytes);
    if (done != nullptr) ++*done;
  });
  return CUDA_SUCCESS;
}

CUresult MemcpyHtoDAsync(CUdeviceptr to, const void* from, size_t bytes, CUstream stream) {
  return Copy(FakeCudaMemory::Get().OnDevice(to), from, bytes, stream, &State().copies_to_device);
}

CUresult MemcpyDtoHAsync(void* to, CUdeviceptr from, size_t bytes, CUstream stream) {
  return Copy(to, FakeCudaMemory::Get().OnDevice(from), bytes, stream, &State().copies_to_host);
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
  CUmemorytype type = CU_MEMORYTYPE_HOST;
  CUdevice device = 0;
  if (!FakeCudaMemory::Get().Describe(pointer, &type, &device)) return CUDA_ERROR_INVALID_VALUE;
  const unsigned answer =
      attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? unsigned{type} : static_cast<unsigned>(device);
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
  if (const CUresult refused = InContextBesideCapture(); refused != CUDA_SUCCESS) return refused;
  if (State().module_result != CUDA_SUCCESS) return State().module_result;
  *module = static_cast<CUmodule>(const_cast<void*>(image));
  ++State().live_modules;
  return CUDA_SUCCESS;
}

CUresult ModuleUnload(CUmodule) {
  if (InContext() != CUDA_SUCCESS) return InContext();
  --State().live_modules;
  return CUDA_SUCCESS;
}

CUresult ModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  *function = FakeCudaKernels::Get().Find(name);
  return *function != nullptr ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult LaunchKernel(CUfunction function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                      CUstream stream, void** arguments, void**) {
  ++State().launches;
  function->Launch(Resolve(stream), arguments);
  return CUDA_SUCCESS;
}

void AddStreams(FakeCudaEntryPoints* all) {
  all->Add<StreamCreateWithPriority>("cuStreamCreateWithPriority", &DriverApi::cuStreamCreateWithPriority);
  all->AddRelease<StreamDestroy>("cuStreamDestroy", &DriverApi::cuStreamDestroy);
  all->Add<StreamWaitEvent>("cuStreamWaitEvent", &DriverApi::cuStreamWaitEvent);
  all->Add<StreamQuery>("cuStreamQuery", &DriverApi::cuStreamQuery);
  all->Add<StreamIsCapturing>("cuStreamIsCapturing", &DriverApi::cuStreamIsCapturing);
  all->Add<StreamSynchronize>("cuStreamSynchronize", &DriverApi::cuStreamSynchronize);
  all->Add<ThreadExchangeStreamCaptureMode>("cuThreadExchangeStreamCaptureMode",
                                            &DriverApi::cuThreadExchangeStreamCaptureMode);
  all->Add<StreamGetDevice>("cuStreamGetDevice", &DriverApi::cuStreamGetDevice, 12080);
  all->Add<EventCreate>("cuEventCreate", &DriverApi::cuEventCreate);
  all->AddRelease<EventDestroy>("cuEventDestroy", &DriverApi::cuEventDestroy);
  all->Add<EventRecord>("cuEventRecord", &DriverApi::cuEventRecord);
  all->Add<EventQuery>("cuEventQuery", &DriverApi::cuEventQuery);
  all->Add<EventElapsedTime>("cuEventElapsedTime", &DriverApi::cuEventElapsedTime);
  all->Add<ModuleLoadData>("cuModuleLoadData", &DriverApi::cuModuleLoadData);
  all->AddRelease<ModuleUnload>("cuModuleUnload", &DriverApi::cuModuleUnload);
  all->Add<ModuleGetFunction>("cuModuleGetFunction", &DriverApi::cuModuleGetFunction);
  all->Add<LaunchKernel>("cuLaunchKernel", &DriverApi::cuLaunchKernel);
}

void AddMemory(FakeCudaEntryPoints* all) {
  all->Add<MemAlloc>("cuMemAlloc", &DriverApi::cuMemAlloc);
  all->AddRelease<MemFree>("cuMemFree", &DriverApi::cuMemFree);
  all->Add<MemGetInfo>("cuMemGetInfo", &DriverApi::cuMemGetInfo);
  all->Add<MemAllocAsync>("cuMemAllocAsync", &DriverApi::cuMemAllocAsync);
  all->AddRelease<MemFreeAsync>("cuMemFreeAsync", &DriverApi::cuMemFreeAsync);
  all->Add<MemHostAlloc>("cuMemHostAlloc", &DriverApi::cuMemHostAlloc);
  all->AddRelease<MemFreeHost>("cuMemFreeHost", &DriverApi::cuMemFreeHost);
  all->Add<MemcpyHtoDAsync>("cuMemcpyHtoDAsync", &DriverApi::cuMemcpyHtoDAsync);
  all->Add<MemcpyDtoHAsync>("cuMemcpyDtoHAsync", &DriverApi::cuMemcpyDtoHAsync);
  all->Add<MemcpyDtoDAsync>("cuMemcpyDtoDAsync", &DriverApi::cuMemcpyDtoDAsync);
  all->Add<MemsetD8Async>("cuMemsetD8Async", &DriverApi::cuMemsetD8Async);
  all->Add<PointerGetAttribute>("cuPointerGetAttribute", &DriverApi::cuPointerGetAttribute);
  all->Add<PointerGetAttributes>("cuPointerGetAttributes", &DriverApi::cuPointerGetAttributes);
}

const FakeCudaEntryPoints& All() {
  static const auto* const all = [] {
    auto* const made = new FakeCudaEntryPoints();
    AddFakeCudaDeviceCalls(made);
    AddStreams(made);
    AddMemory(made);
    return made;
  }();
  return *all;
}

CUresult Launch(const char* name, CUstream stream, void** arguments) {
  if (State().sticky_error != CUDA_SUCCESS) return State().sticky_error;
  const CUfunction function = FakeCudaKernels::Get().Find(name);
  if (function == nullptr) return CUDA_ERROR_NOT_FOUND;
  ++State().launches;
  function->Launch(Resolve(stream), arguments);
  return CUDA_SUCCESS;
}

int DeviceOfMemory(CUdeviceptr pointer) {
  CUmemorytype type = CU_MEMORYTYPE_HOST;
  CUdevice device = 0;
  const bool known = FakeCudaMemory::Get().Describe(pointer, &type, &device);
  return known && type == CU_MEMORYTYPE_DEVICE ? device : -1;
}

void Reset();

void AddFunctions(FakeCuda* state) {
  state->reset = Reset;
  state->on_device = [](CUdeviceptr pointer) { return FakeCudaMemory::Get().OnDevice(pointer); };
  state->device_of_memory = DeviceOfMemory;
  state->device_of_stream = [](CUstream stream) { return Resolve(stream)->device(); };
  state->current_device = FakeCudaState::Device;
  state->add_kernel = [](const char* name, FakeKernel kernel, const std::vector<size_t>& sizes) {
    FakeCudaKernels::Get().Add(name, {kernel, sizes});
  };
  state->launch = Launch;
}

void Reset() {
  // They read it, too.
  CUstream_st::JoinRetired();
  AddFunctions(new (&State()) FakeCuda());
}

}  // namespace

extern "C" {

FakeCuda* fake_cuda() {
  static FakeCuda* const state = [] {
    AddFunctions(&State());
    return &State();
  }();
  return state;
}

CUresult cuGetProcAddress_v2(const char* symbol, void** function, int cuda_version, uint64_t,
                             CUdriverProcAddressQueryResult* status) {
  const auto* const entry = All().Find(symbol);
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
