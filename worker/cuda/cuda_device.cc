#include "worker/cuda/cuda_device.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace farandole::worker::cuda {
namespace {

// After these the context answers every call with an error (the manual says of each: "the process must be terminated
// and relaunched", or that the context is gone). By number: drivers have more than we declare.
constexpr int kStickyResults[] = {
    214,  // ECC_UNCORRECTABLE
    220,  // NVLINK_UNCORRECTABLE
    226,  // CONTAINED
    700,  // ILLEGAL_ADDRESS
    702,  // LAUNCH_TIMEOUT
    709,  // CONTEXT_IS_DESTROYED
    710,  // ASSERT
    714,  // HARDWARE_STACK_ERROR
    715,  // ILLEGAL_INSTRUCTION
    716,  // MISALIGNED_ADDRESS
    717,  // INVALID_ADDRESS_SPACE
    718,  // INVALID_PC
    719,  // LAUNCH_FAILED
    721,  // TENSOR_MEMORY_LEAK
    810,  // MPS_CLIENT_TERMINATED
    911,  // EXTERNAL_DEVICE
};

bool IsSticky(CUresult result) {
  return std::find(std::begin(kStickyResults), std::end(kStickyResults), static_cast<int>(result)) !=
         std::end(kStickyResults);
}

ABSL_CONST_INIT absl::Mutex reclaim_mutex(absl::kConstInit);
Reclaim* reclaim_memory ABSL_GUARDED_BY(reclaim_mutex) = nullptr;
int reclaims_under_way ABSL_GUARDED_BY(reclaim_mutex) = 0;

// False: nobody could be asked.
bool AskForMemory(int ordinal) {
  Reclaim* reclaim;
  {
    absl::MutexLock lock(&reclaim_mutex);
    reclaim = reclaim_memory;
    if (reclaim == nullptr) return false;
    ++reclaims_under_way;
  }
  reclaim(ordinal);
  absl::MutexLock lock(&reclaim_mutex);
  --reclaims_under_way;
  return true;
}

// CUDA's own state is that of the process, too.
class Losses {
 public:
  static Losses& Get() {
    static auto* const losses = new Losses();
    return *losses;
  }
  void Add(const std::string& said) {
    absl::MutexLock lock(&mutex_);
    if (first_.empty()) first_ = said;
  }
  std::string first() {
    absl::MutexLock lock(&mutex_);
    return first_;
  }

 private:
  absl::Mutex mutex_;
  std::string first_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

CudaEvent::~CudaEvent() { device_->GiveBack(event_); }

absl::Status CudaEvent::MakeWait(void* stream) const {
  // The calling thread may be one that has not touched CUDA.
  const CudaDevice::Current current(device_);
  return device_->ToStatus(device_->api().cuStreamWaitEvent(static_cast<CUstream>(stream), event_, 0),
                           "cuStreamWaitEvent");
}

absl::StatusOr<bool> CudaEvent::Reached() const {
  const BesideCapture beside_capture(device_->api());
  const CUresult result = device_->api().cuEventQuery(event_);
  if (result == CUDA_SUCCESS || result == CUDA_ERROR_NOT_READY) return result == CUDA_SUCCESS;
  return device_->ToStatus(result, "cuEventQuery");
}

absl::StatusOr<std::unique_ptr<CudaDevice>> CudaDevice::Open(const Driver* driver, int ordinal) {
  std::unique_ptr<CudaDevice> device(new CudaDevice(driver, ordinal));
  const absl::Status status = device->Init();
  if (status.ok()) return device;
  return absl::UnavailableError(absl::StrCat("GPU ", ordinal, " cannot be used: ", status.message()));
}

absl::Status CudaDevice::Init() {
  CUdevice device = 0;
  absl::Status status = ToStatus(api().cuInit(0), "cuInit");
  if (status.ok()) status = ToStatus(api().cuDeviceGet(&device, ordinal_), "cuDeviceGet");
  char name[256] = "";
  if (status.ok()) status = ToStatus(api().cuDeviceGetName(name, sizeof(name), device), "cuDeviceGetName");
  CUuuid uuid = {};
  if (status.ok()) status = ToStatus(api().cuDeviceGetUuid(&uuid, device), "cuDeviceGetUuid");
  if (status.ok()) {
    status = ToStatus(api().cuDeviceGetAttribute(&multiprocessors_, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device),
                      "cuDeviceGetAttribute");
  }
  if (status.ok()) status = ToStatus(api().cuDevicePrimaryCtxRetain(&context_, device), "cuDevicePrimaryCtxRetain");
  name_ = absl::StrCat("GPU ", ordinal_, " (", name, ")");
  uuid_ = absl::BytesToHexString({uuid.bytes, sizeof(uuid.bytes)});
  return status;
}

CudaDevice::~CudaDevice() {
  if (context_ == nullptr) return;
  {
    const Current current(this);
    {
      absl::MutexLock lock(&memory_mutex_);
      if (memory_stream_ != nullptr) api().cuStreamDestroy(memory_stream_);
    }
    absl::MutexLock lock(&spare_mutex_);
    for (CUevent event : spare_) api().cuEventDestroy(event);
  }
  api().cuDevicePrimaryCtxRelease(ordinal_);
}

CudaDevice::Current::Current(const CudaDevice* device) : device_(device), beside_capture_(device->api()) {
  device_->api().cuCtxGetCurrent(&before_);
  if (before_ != device_->context_) device_->api().cuCtxSetCurrent(device_->context_);
}

CudaDevice::Current::~Current() {
  if (before_ != device_->context_) device_->api().cuCtxSetCurrent(before_);
}

absl::StatusOr<device::EventPtr> CudaDevice::Record(void* stream) {
  const auto on = static_cast<CUstream>(stream);
  if (on == kCuStreamPerThread) {
    return absl::FailedPreconditionError(
        "the stream is CUDA's per-thread default stream (cudaStreamPerThread), which is another one in the threads "
        "that carry collectives out: work on a stream that was created (torch.cuda.Stream), or on the default stream");
  }
  const Current current(this);
  CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_NONE;
  const absl::Status asked = ToStatus(api().cuStreamIsCapturing(on, &capture), "cuStreamIsCapturing");
  if (!asked.ok()) return asked;
  if (capture != CU_STREAM_CAPTURE_STATUS_NONE) {
    return absl::FailedPreconditionError(
        "the stream is being captured into a CUDA graph, and ranks cannot agree about a collective whenever a graph "
        "runs: leave collectives outside of what is captured (torch.cuda.graph, torch.cuda.make_graphed_callables)");
  }
  return RecordEvent(on);
}

absl::StatusOr<std::shared_ptr<const CudaEvent>> CudaDevice::RecordEvent(CUstream stream) {
  const Current current(this);
  absl::StatusOr<SpareEvent> event = TakeEvent();
  return event.ok() ? RecordEvent(stream, *std::move(event)) : event.status();
}

absl::StatusOr<std::shared_ptr<const CudaEvent>> CudaDevice::RecordEvent(CUstream stream, SpareEvent event) {
  const Current current(this);
  absl::Status status;
  uint64_t order;
  {
    absl::MutexLock lock(&record_mutexes_[ShardOf(stream)]);
    status = ToStatus(api().cuEventRecord(event.get(), stream), "cuEventRecord");
    order = ++order_;
  }
  if (!status.ok()) return status;
  return std::make_shared<const CudaEvent>(this, event.release(), stream, order);
}

absl::StatusOr<CudaDevice::SpareEvent> CudaDevice::TakeEvent() {
  const Current current(this);
  CUevent event = nullptr;
  {
    absl::MutexLock lock(&spare_mutex_);
    if (!spare_.empty()) {
      event = spare_.back();
      spare_.pop_back();
    }
  }
  absl::Status status;
  if (event == nullptr) status = ToStatus(api().cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
  if (!status.ok()) return status;
  return SpareEvent(event, ForNext{this});
}

void CudaDevice::GiveBack(CUevent event) {
  absl::MutexLock lock(&spare_mutex_);
  spare_.push_back(event);
}

// Made on the framework's stream, it would be there behind all that the script has put on it meanwhile.
absl::StatusOr<device::Device::ForResult> CudaDevice::AllocateResult(int64_t bytes, void* stream) {
  const absl::StatusOr<CUstream> made_on = MemoryStream();
  if (!made_on.ok()) return made_on.status();
  absl::StatusOr<std::shared_ptr<void>> memory = Allocate(bytes, *made_on, static_cast<CUstream>(stream));
  if (!memory.ok()) return memory.status();
  absl::StatusOr<std::shared_ptr<const CudaEvent>> ready = RecordEvent(*made_on);
  if (!ready.ok()) return ready.status();
  return ForResult{*std::move(memory), *std::move(ready)};
}

absl::StatusOr<CUstream> CudaDevice::MemoryStream() {
  const Current current(this);
  absl::MutexLock lock(&memory_mutex_);
  if (memory_stream_ == nullptr) {
    const absl::Status made = ToStatus(api().cuStreamCreateWithPriority(&memory_stream_, CU_STREAM_NON_BLOCKING, 0),
                                       "cuStreamCreateWithPriority");
    if (!made.ok()) return made;
  }
  return memory_stream_;
}

absl::StatusOr<std::shared_ptr<void>> CudaDevice::Allocate(int64_t bytes, CUstream made_on, CUstream freed_on) {
  const Current current(this);
  CUdeviceptr memory = 0;
  const size_t size = static_cast<size_t>(std::max<int64_t>(bytes, 1));
  bool in_order = true;
  CUresult result = TryAllocate(&memory, size, made_on, &in_order);
  if (result == CUDA_ERROR_OUT_OF_MEMORY && AskForMemory(ordinal_)) {
    result = TryAllocate(&memory, size, made_on, &in_order);
  }
  const absl::Status status = ToStatus(result, in_order ? "cuMemAllocAsync" : "cuMemAlloc");
  if (absl::IsResourceExhausted(status)) {
    return absl::ResourceExhaustedError(
        absl::StrCat(name_, " has no memory for a buffer of ", bytes, " bytes: ", status.message()));
  }
  if (!status.ok()) return status;
  return std::shared_ptr<void>(reinterpret_cast<void*>(memory), [this, in_order, freed_on](void* given) {
    const Current freed(this);
    const auto address = reinterpret_cast<CUdeviceptr>(given);
    if (!in_order) {
      // It would wait for the device.
      if (!lost_) api().cuMemFree(address);
    } else if (api().cuMemFreeAsync(address, freed_on) != CUDA_SUCCESS) {
      // The stream was destroyed, too early. The default stream waits for all others but those that do not block.
      api().cuMemFreeAsync(address, nullptr);
    }
  });
}

void CudaDevice::MakeRoom(int64_t bytes) const {
  const Current current(this);
  size_t free = 0, total = 0;
  const bool known = api().cuMemGetInfo(&free, &total) == CUDA_SUCCESS;
  if (known && free < static_cast<size_t>(bytes)) AskForMemory(ordinal_);
}

CUresult CudaDevice::TryAllocate(CUdeviceptr* memory, size_t bytes, CUstream stream, bool* in_order) const {
  const CUresult result = api().cuMemAllocAsync(memory, bytes, stream);
  // The other call waits for the whole device, and so does its counterpart.
  *in_order = result != CUDA_ERROR_NOT_SUPPORTED;
  return *in_order ? result : api().cuMemAlloc(memory, bytes);
}

absl::Status CudaDevice::Copy(void* to, const void* from, int64_t bytes, void* stream) {
  if (bytes == 0) return absl::OkStatus();
  const Current current(this);
  return ToStatus(api().cuMemcpyDtoDAsync(reinterpret_cast<CUdeviceptr>(to), reinterpret_cast<CUdeviceptr>(from),
                                          static_cast<size_t>(bytes), static_cast<CUstream>(stream)),
                  "cuMemcpyDtoDAsync");
}

absl::Status CudaDevice::ToStatus(CUresult result, absl::string_view call) const {
  const absl::Status status = driver_->ToStatus(result, call);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) return absl::ResourceExhaustedError(status.message());
  if (!IsSticky(result)) return status;
  return Lost(absl::StrCat("has failed: ", status.message()));
}

absl::Status CudaDevice::Lost(absl::string_view what) const {
  const std::string said = absl::StrCat(name_, " ", what, "; this process cannot use it any more, another one can");
  lost_ = true;
  Losses::Get().Add(said);
  return absl::DataLossError(said);
}

std::string FirstLoss() { return Losses::Get().first(); }

bool SetReclaim(Reclaim* reclaim, int timeout_ms) {
  absl::MutexLock lock(&reclaim_mutex);
  reclaim_memory = reclaim;
  const auto none = []() ABSL_EXCLUSIVE_LOCKS_REQUIRED(reclaim_mutex) { return reclaims_under_way == 0; };
  return reclaim_mutex.AwaitWithTimeout(absl::Condition(&none), absl::Milliseconds(timeout_ms));
}

}  // namespace farandole::worker::cuda
