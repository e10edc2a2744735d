#include "worker/gpu_devices.h"

#include <map>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/config.h"
#include "worker/gpu_libraries.h"

namespace farandole::worker {
namespace {

struct Gpu {
  std::unique_ptr<cuda::CudaDevice> device;
  std::unique_ptr<const kernels::Kernels> kernels;  // null: nobody needed them
};

class Gpus {
 public:
  // Never destroyed, as CudaDriver().
  static Gpus& Get() {
    static auto* const gpus = new Gpus();
    return *gpus;
  }

  absl::StatusOr<cuda::CudaDevice*> Device(int ordinal) {
    const absl::StatusOr<const cuda::Driver*> driver = CudaDriver();
    if (!driver.ok()) return driver.status();
    absl::MutexLock lock(&mutex_);
    const auto known = gpus_.find(ordinal);
    if (known != gpus_.end()) return known->second.device.get();
    absl::StatusOr<std::unique_ptr<cuda::CudaDevice>> opened = cuda::CudaDevice::Open(*driver, ordinal);
    if (!opened.ok()) return opened.status();
    Gpu& gpu = gpus_[ordinal];
    gpu.device = *std::move(opened);
    return gpu.device.get();
  }

  absl::StatusOr<const kernels::Kernels*> Kernels(cuda::CudaDevice* device) {
    absl::MutexLock lock(&mutex_);
    std::unique_ptr<const kernels::Kernels>& kernels = gpus_.at(device->ordinal()).kernels;
    if (kernels == nullptr) {
      absl::StatusOr<std::unique_ptr<const kernels::Kernels>> loaded = kernels::Kernels::Load(device);
      if (!loaded.ok()) return loaded.status();
      kernels = *std::move(loaded);
    }
    return kernels.get();
  }

 private:
  absl::Mutex mutex_;
  std::map<int, Gpu> gpus_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

std::string GpuFailure() { return cuda::FirstLoss(); }

absl::StatusOr<cuda::CudaDevice*> GpuDevice(int ordinal) { return Gpus::Get().Device(ordinal); }

absl::StatusOr<const kernels::Kernels*> GpuKernels(cuda::CudaDevice* device) { return Gpus::Get().Kernels(device); }

absl::StatusOr<nccl::Resources> NcclResources(nccl::Watch* watch) {
  const absl::StatusOr<const cuda::Driver*> driver = CudaDriver();
  if (!driver.ok()) return driver.status();
  const absl::StatusOr<const cuda::NcclLibrary*> library = Nccl("");
  if (!library.ok()) return library.status();
  const bool shares_gpus = ReadGpuLibraryPaths(ProcessEnvironment()).nccl_shares_gpus;
  return nccl::Resources{*library, watch, shares_gpus, GpuKernels};
}

}  // namespace farandole::worker
