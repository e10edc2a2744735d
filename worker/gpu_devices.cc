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

// 2.30.0. NCCL does not say that it has no such variable.
constexpr int kNcclWithMultiRank = 23000;

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
    std::unique_ptr<cuda::CudaDevice>& device = devices_[ordinal];
    if (device != nullptr) return device.get();
    absl::StatusOr<std::unique_ptr<cuda::CudaDevice>> opened = cuda::CudaDevice::Open(*driver, ordinal);
    if (!opened.ok()) return opened.status();
    device = *std::move(opened);
    return device.get();
  }

  absl::StatusOr<const kernels::Kernels*> Kernels(cuda::CudaDevice* device) {
    // A driver that compiles them takes a while, in which submissions ask for the device.
    absl::MutexLock lock(&kernels_mutex_);
    std::unique_ptr<const kernels::Kernels>& kernels = kernels_[device->ordinal()];
    if (kernels == nullptr) {
      absl::StatusOr<std::unique_ptr<const kernels::Kernels>> loaded = kernels::Kernels::Load(device);
      if (!loaded.ok()) return loaded.status();
      kernels = *std::move(loaded);
    }
    return kernels.get();
  }

 private:
  // By ordinal. Null: not needed yet, or not to be had.
  absl::Mutex mutex_;
  std::map<int, std::unique_ptr<cuda::CudaDevice>> devices_ ABSL_GUARDED_BY(mutex_);
  absl::Mutex kernels_mutex_;
  std::map<int, std::unique_ptr<const kernels::Kernels>> kernels_ ABSL_GUARDED_BY(kernels_mutex_);
};

}  // namespace

std::string GpuFailure() { return cuda::FirstLoss(); }

bool SetGpuReclaim(cuda::Reclaim* reclaim, int timeout_ms) { return cuda::SetReclaim(reclaim, timeout_ms); }

absl::StatusOr<cuda::CudaDevice*> GpuDevice(int ordinal) { return Gpus::Get().Device(ordinal); }

absl::StatusOr<const kernels::Kernels*> GpuKernels(cuda::CudaDevice* device) { return Gpus::Get().Kernels(device); }

absl::StatusOr<nccl::Resources> NcclResources(nccl::Watch* watch) {
  const absl::StatusOr<const cuda::Driver*> driver = CudaDriver();
  if (!driver.ok()) return driver.status();
  const absl::StatusOr<const cuda::NcclLibrary*> library = Nccl("");
  if (!library.ok()) return library.status();
  const GpuLibraryPaths told = ReadGpuLibraryPaths(ProcessEnvironment());
  const bool shares_gpus = told.nccl_multi_rank && (*library)->version() >= kNcclWithMultiRank;
  return nccl::Resources{*library, watch, shares_gpus, told.nccl_host_id, GpuKernels};
}

}  // namespace farandole::worker
