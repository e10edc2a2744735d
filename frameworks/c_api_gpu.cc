#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "frameworks/c_api.h"
#include "frameworks/c_api_answer.h"
#include "worker/gpu_devices.h"
#include "worker/gpu_libraries.h"
#include "worker/kernels/kernel_image.h"

namespace {

using farandole::frameworks::Fail;
using farandole::worker::completion::Code;
using farandole::worker::cuda::CudaVersionText;
using farandole::worker::cuda::Driver;
using farandole::worker::cuda::NcclLibrary;
using farandole::worker::cuda::NcclVersionText;

// Whether collectives on the memory of GPUs go through what is found.
int Used() { return farandole::worker::kernels::KernelImage().empty() ? 0 : 1; }

struct Answer {
  int number = 0;
  std::string text;
};

absl::StatusOr<Answer> FindDriver() {
  const absl::StatusOr<const Driver*> driver = farandole::worker::CudaDriver();
  if (!driver.ok()) return driver.status();
  return Answer{(*driver)->version(),
                absl::StrCat("CUDA ", CudaVersionText((*driver)->version()), " (", (*driver)->path(), ")")};
}

absl::StatusOr<Answer> FindDevices() {
  const absl::StatusOr<const Driver*> driver = farandole::worker::CudaDriver();
  if (!driver.ok()) return driver.status();
  const absl::StatusOr<std::vector<std::string>> devices = (*driver)->Devices();
  if (!devices.ok()) return devices.status();
  return Answer{static_cast<int>(devices->size()), absl::StrJoin(*devices, ", ")};
}

absl::StatusOr<Answer> FindNccl(const char* wheel) {
  const absl::StatusOr<const NcclLibrary*> nccl = farandole::worker::Nccl(wheel == nullptr ? "" : wheel);
  if (!nccl.ok()) return nccl.status();
  return Answer{(*nccl)->version(),
                absl::StrCat("NCCL ", NcclVersionText((*nccl)->version()), " (", (*nccl)->path(), ")")};
}

}  // namespace

extern "C" int farandole_gpu_library(int which, const char* wheel, int* number, const char** text) {
  int code;
  if (farandole::frameworks::InChild(&code)) return code;
  if (number == nullptr || text == nullptr) {
    return Fail({Code::kInvalidArgument, "farandole_gpu_library: no place for the answer"});
  }
  if (which < FARANDOLE_CUDA_DRIVER || which > FARANDOLE_NCCL) {
    return Fail({Code::kInvalidArgument, "farandole_gpu_library: there is no such library"});
  }
  const absl::StatusOr<Answer> answer = which == FARANDOLE_CUDA_DRIVER    ? FindDriver()
                                        : which == FARANDOLE_CUDA_DEVICES ? FindDevices()
                                                                          : FindNccl(wheel);
  if (!answer.ok()) return Fail({Code::kUnavailable, std::string(answer.status().message())});
  thread_local std::string found;
  found = answer->text;
  *text = found.c_str();
  *number = answer->number;
  return Used();
}

extern "C" int farandole_gpu_set_reclaim(void (*reclaim)(int device), int timeout_ms) {
  int code;
  if (farandole::frameworks::InChild(&code)) return code;
  return farandole::worker::SetGpuReclaim(reclaim, timeout_ms) ? FARANDOLE_OK : FARANDOLE_PENDING;
}

extern "C" const char* farandole_gpu_failure(void) {
  thread_local std::string failure;
  failure = farandole::worker::GpuFailure();
  return failure.empty() ? nullptr : failure.c_str();
}
