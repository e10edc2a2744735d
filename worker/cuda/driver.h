#ifndef FARANDOLE_WORKER_CUDA_DRIVER_H_
#define FARANDOLE_WORKER_CUDA_DRIVER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/cuda/driver_abi.h"
#include "worker/cuda/shared_object.h"

namespace farandole::worker::cuda {

// The CUDA driver of this machine. Any thread; a process has one, see worker/gpu_libraries.h.
class Driver {
 public:
  // The oldest that is taken. It is the first with cuGetProcAddress in its present form, and the oldest for which NCCL
  // of the same years is built.
  static constexpr int kVersionMin = 12000;

  // Opens `library` and finds its entry points. Initialises nothing, so the process may fork afterwards and use CUDA in
  // its children. NOT_FOUND: no such library. FAILED_PRECONDITION: it cannot be used, for instance too old.
  static absl::StatusOr<std::unique_ptr<const Driver>> Load(const std::string& library);

  // Initialises CUDA in this process, whose children by fork() cannot use it from then on. The names of its devices, at
  // least one; UNAVAILABLE: why there is none.
  absl::StatusOr<std::vector<std::string>> Devices() const;

  const DriverApi& api() const { return api_; }
  // 13000 is CUDA 13.0: the newest CUDA that the driver serves.
  int version() const { return version_; }
  std::string path() const { return library_.path(); }
  // What `call` has returned, by name; OK for CUDA_SUCCESS, otherwise UNAVAILABLE.
  absl::Status ToStatus(CUresult result, absl::string_view call) const;

 private:
  explicit Driver(SharedObject library) : library_(std::move(library)) {}
  absl::Status FindEntryPoints(GetProcAddress* get);
  absl::Status CheckVersion();

  const SharedObject library_;
  DriverApi api_ = {};
  int version_ = 0;
};

// "13.0".
std::string CudaVersionText(int version);

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_DRIVER_H_
