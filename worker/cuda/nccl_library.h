#ifndef FARANDOLE_WORKER_CUDA_NCCL_LIBRARY_H_
#define FARANDOLE_WORKER_CUDA_NCCL_LIBRARY_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/cuda/nccl_abi.h"
#include "worker/cuda/shared_object.h"

namespace farandole::worker::cuda {

// Where NCCL may be. An empty place is left out.
struct NcclPlaces {
  // What the user wants.
  std::string wanted;
  // The file of the wheel that frameworks depend on, which the loader does not find by itself.
  std::string wheel;
  // Under which a copy that is in the process is known, and the loader finds one.
  std::string name = "libnccl.so.2";
};

// NCCL, at most one copy of which may be in a process: two would not know of each other's memory and communicators,
// and take both twice. Any thread; a process has one, see worker/gpu_libraries.h. Must not be destroyed once it was
// asked for a unique id or a communicator: these start threads, which run on in NCCL's code.
class NcclLibrary {
 public:
  // The oldest that is taken: that of torch 2.1, the oldest that is supported. Non-blocking initialisation, which an
  // abort needs, and communicators out of others are there by then.
  static constexpr int kVersionMin = 21801;

  // The first of: what is wanted, the copy in the process, the wheel, the one that the loader finds. The first that is
  // there counts, whether it can be used or not. NOT_FOUND: there is none. FAILED_PRECONDITION: it cannot be used, for
  // instance too old; or another than the wanted one is in the process already.
  static absl::StatusOr<std::unique_ptr<const NcclLibrary>> Load(const NcclPlaces& places);

  const NcclApi& api() const { return api_; }
  // 22809 is 2.28.9.
  int version() const { return version_; }
  std::string path() const { return library_.path(); }
  // What `call` has returned, in NCCL's words; OK also for ncclInProgress, otherwise UNAVAILABLE.
  absl::Status ToStatus(ncclResult_t result, absl::string_view call) const;

 private:
  explicit NcclLibrary(SharedObject library) : library_(std::move(library)) {}
  absl::Status FindEntryPoints();
  absl::Status CheckVersion();

  const SharedObject library_;
  NcclApi api_ = {};
  int version_ = 0;
};

// "2.28.9".
std::string NcclVersionText(int version);

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_NCCL_LIBRARY_H_
