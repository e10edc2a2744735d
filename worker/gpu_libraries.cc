#include "worker/gpu_libraries.h"

#include <functional>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/config.h"

namespace farandole::worker {
namespace {

template <typename Library>
class Loaded {
 public:
  absl::StatusOr<const Library*> Get(const std::function<absl::StatusOr<std::unique_ptr<const Library>>()>& load) {
    absl::MutexLock lock(&mutex_);
    if (library_ != nullptr) return library_.get();
    absl::StatusOr<std::unique_ptr<const Library>> loaded = load();
    if (!loaded.ok()) return loaded.status();
    library_ = *std::move(loaded);
    return library_.get();
  }

 private:
  absl::Mutex mutex_;
  std::unique_ptr<const Library> library_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

absl::StatusOr<const cuda::Driver*> CudaDriver() {
  // Never destroyed: threads of the script may use it while the process exits.
  static auto* const loaded = new Loaded<cuda::Driver>();
  return loaded->Get([] { return cuda::Driver::Load(ReadGpuLibraryPaths(ProcessEnvironment()).cuda); });
}

absl::StatusOr<const cuda::NcclLibrary*> Nccl(const std::string& wheel) {
  static auto* const loaded = new Loaded<cuda::NcclLibrary>();
  return loaded->Get([&wheel] {
    cuda::NcclPlaces places;
    places.wanted = ReadGpuLibraryPaths(ProcessEnvironment()).nccl;
    places.wheel = wheel;
    return cuda::NcclLibrary::Load(places);
  });
}

}  // namespace farandole::worker
