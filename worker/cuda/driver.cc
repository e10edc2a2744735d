#include "worker/cuda/driver.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::worker::cuda {
namespace {

// Asks for entry points by name and keeps the name of the first that is missing.
class Finder {
 public:
  explicit Finder(GetProcAddress* get) : get_(get) {}

  template <typename Function>
  void Required(const char* name, Function** to, int cuda_version = Driver::kVersionMin) {
    Optional(name, cuda_version, to);
    if (*to == nullptr && missing_ == nullptr) missing_ = name;
  }

  // In the form that it has in `cuda_version`: a name may stand for several.
  template <typename Function>
  void Optional(const char* name, int cuda_version, Function** to) {
    void* found = nullptr;
    CUdriverProcAddressQueryResult status = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    const CUresult result = get_(name, &found, cuda_version, CU_GET_PROC_ADDRESS_DEFAULT, &status);
    const bool usable = result == CUDA_SUCCESS && status == CU_GET_PROC_ADDRESS_SUCCESS;
    *to = usable ? reinterpret_cast<Function*>(found) : nullptr;
  }

  // nullptr: none.
  const char* missing() const { return missing_; }

 private:
  GetProcAddress* const get_;
  const char* missing_ = nullptr;
};

void FindDevices(Finder* find, DriverApi* api) {
  find->Required("cuInit", &api->cuInit);
  find->Required("cuDriverGetVersion", &api->cuDriverGetVersion);
  find->Required("cuGetErrorName", &api->cuGetErrorName);
  find->Required("cuGetErrorString", &api->cuGetErrorString);
  find->Required("cuDeviceGetCount", &api->cuDeviceGetCount);
  find->Required("cuDeviceGet", &api->cuDeviceGet);
  find->Required("cuDeviceGetName", &api->cuDeviceGetName);
  find->Required("cuDeviceGetAttribute", &api->cuDeviceGetAttribute);
  // In its first form parts of a GPU (MIG) have the number of the whole, for which alone NCCL serves one rank.
  find->Required("cuDeviceGetUuid", &api->cuDeviceGetUuid, 11000);
  find->Required("cuCtxGetCurrent", &api->cuCtxGetCurrent);
  find->Required("cuCtxSetCurrent", &api->cuCtxSetCurrent);
  find->Required("cuCtxGetStreamPriorityRange", &api->cuCtxGetStreamPriorityRange);
  find->Required("cuDevicePrimaryCtxRetain", &api->cuDevicePrimaryCtxRetain);
  find->Required("cuDevicePrimaryCtxRelease", &api->cuDevicePrimaryCtxRelease);
}

void FindStreams(Finder* find, DriverApi* api) {
  find->Required("cuStreamCreateWithPriority", &api->cuStreamCreateWithPriority);
  find->Required("cuStreamDestroy", &api->cuStreamDestroy);
  find->Required("cuStreamWaitEvent", &api->cuStreamWaitEvent);
  find->Required("cuStreamQuery", &api->cuStreamQuery);
  find->Required("cuStreamIsCapturing", &api->cuStreamIsCapturing);
  find->Required("cuStreamSynchronize", &api->cuStreamSynchronize);
  find->Required("cuThreadExchangeStreamCaptureMode", &api->cuThreadExchangeStreamCaptureMode);
  find->Optional("cuStreamGetDevice", 12080, &api->cuStreamGetDevice);
  find->Required("cuEventCreate", &api->cuEventCreate);
  find->Required("cuEventDestroy", &api->cuEventDestroy);
  find->Required("cuEventRecord", &api->cuEventRecord);
  find->Required("cuEventQuery", &api->cuEventQuery);
  find->Required("cuEventElapsedTime", &api->cuEventElapsedTime);
  find->Required("cuModuleLoadData", &api->cuModuleLoadData);
  find->Required("cuModuleUnload", &api->cuModuleUnload);
  find->Required("cuModuleGetFunction", &api->cuModuleGetFunction);
  find->Required("cuLaunchKernel", &api->cuLaunchKernel);
}

void FindMemory(Finder* find, DriverApi* api) {
  find->Required("cuMemGetInfo", &api->cuMemGetInfo);
  find->Required("cuMemAlloc", &api->cuMemAlloc);
  find->Required("cuMemFree", &api->cuMemFree);
  find->Required("cuMemAllocAsync", &api->cuMemAllocAsync);
  find->Required("cuMemFreeAsync", &api->cuMemFreeAsync);
  find->Required("cuMemHostAlloc", &api->cuMemHostAlloc);
  find->Required("cuMemFreeHost", &api->cuMemFreeHost);
  find->Required("cuMemcpyHtoDAsync", &api->cuMemcpyHtoDAsync);
  find->Required("cuMemcpyDtoHAsync", &api->cuMemcpyDtoHAsync);
  find->Required("cuMemcpyDtoDAsync", &api->cuMemcpyDtoDAsync);
  find->Required("cuMemsetD8Async", &api->cuMemsetD8Async);
  find->Required("cuPointerGetAttribute", &api->cuPointerGetAttribute);
  find->Required("cuPointerGetAttributes", &api->cuPointerGetAttributes);
}

absl::Status TooOld(const std::string& path, const std::string& why) {
  return absl::FailedPreconditionError(absl::StrCat("the CUDA driver ", path, " is too old: ", why, "; CUDA ",
                                                    CudaVersionText(Driver::kVersionMin), " or newer is needed"));
}

}  // namespace

std::string CudaVersionText(int version) { return absl::StrCat(version / 1000, ".", version % 1000 / 10); }

absl::StatusOr<std::unique_ptr<const Driver>> Driver::Load(const std::string& library) {
  absl::StatusOr<SharedObject> opened = SharedObject::Open(library);
  if (!opened.ok()) {
    return absl::NotFoundError(absl::StrCat("no CUDA driver could be loaded: ", opened.status().message()));
  }
  std::unique_ptr<Driver> driver(new Driver(*std::move(opened)));
  auto* get = reinterpret_cast<GetProcAddress*>(driver->library_.Find("cuGetProcAddress_v2"));
  if (get == nullptr) return TooOld(driver->path(), "it has no cuGetProcAddress_v2");
  absl::Status usable = driver->FindEntryPoints(get);
  if (usable.ok()) usable = driver->CheckVersion();
  if (!usable.ok()) return usable;
  return driver;
}

absl::Status Driver::FindEntryPoints(GetProcAddress* get) {
  Finder find(get);
  FindDevices(&find, &api_);
  FindStreams(&find, &api_);
  FindMemory(&find, &api_);
  if (find.missing() == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("the CUDA driver ", path(), " has no ", find.missing()));
}

absl::Status Driver::CheckVersion() {
  const CUresult result = api_.cuDriverGetVersion(&version_);
  if (result != CUDA_SUCCESS) {
    return absl::FailedPreconditionError(absl::StrCat(
        "the CUDA driver ", path(), " does not tell its version: ", ToStatus(result, "cuDriverGetVersion").message()));
  }
  if (version_ >= kVersionMin) return absl::OkStatus();
  return TooOld(path(), absl::StrCat("it serves CUDA ", CudaVersionText(version_)));
}

absl::StatusOr<std::vector<std::string>> Driver::Devices() const {
  absl::Status status = ToStatus(api_.cuInit(0), "cuInit");
  int count = 0;
  if (status.ok()) status = ToStatus(api_.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (status.ok() && count == 0) status = absl::UnavailableError("it sees no device");
  std::vector<std::string> names;
  for (int i = 0; status.ok() && i < count; ++i) {
    CUdevice device = 0;
    char name[256] = "";
    status = ToStatus(api_.cuDeviceGet(&device, i), "cuDeviceGet");
    if (status.ok()) status = ToStatus(api_.cuDeviceGetName(name, sizeof(name), device), "cuDeviceGetName");
    names.push_back(name);
  }
  if (status.ok()) return names;
  return absl::UnavailableError(
      absl::StrCat("the CUDA driver ", path(), " (CUDA ", CudaVersionText(version_), "): ", status.message()));
}

absl::Status Driver::ToStatus(CUresult result, absl::string_view call) const {
  if (result == CUDA_SUCCESS) return absl::OkStatus();
  const char* name = nullptr;
  const char* text = nullptr;
  if (api_.cuGetErrorName(result, &name) != CUDA_SUCCESS || api_.cuGetErrorString(result, &text) != CUDA_SUCCESS) {
    return absl::UnavailableError(absl::StrCat(call, ": error ", static_cast<int>(result)));
  }
  return absl::UnavailableError(absl::StrCat(call, ": ", name, ", ", text));
}

}  // namespace farandole::worker::cuda
