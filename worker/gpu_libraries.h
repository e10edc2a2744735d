#ifndef FARANDOLE_WORKER_GPU_LIBRARIES_H_
#define FARANDOLE_WORKER_GPU_LIBRARIES_H_

#include <string>

#include "absl/status/statusor.h"
#include "worker/cuda/driver.h"
#include "worker/cuda/nccl_library.h"

// The GPU libraries of this process, looked for where its environment says. The first call that finds one loads it, and
// then it stays until the process ends; one that was not found is looked for again by the next call. Any thread.
namespace farandole::worker {

// Initialises nothing. The codes of Driver::Load.
absl::StatusOr<const cuda::Driver*> CudaDriver();

// `wheel`: of NcclPlaces, empty: there is none. The codes of NcclLibrary::Load.
absl::StatusOr<const cuda::NcclLibrary*> Nccl(const std::string& wheel);

}  // namespace farandole::worker

#endif  // FARANDOLE_WORKER_GPU_LIBRARIES_H_
