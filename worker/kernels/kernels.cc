#include "worker/kernels/kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/kernels/move.h"

namespace farandole::worker::kernels {
namespace {

struct MoveKernel {
  const char* name;
  DataType from, to;
};

#define FARANDOLE_MOVE_KERNEL(name, from, to, Kind) {#name, DataType::from, DataType::to},
constexpr MoveKernel kMoves[] = {FARANDOLE_MOVE_KERNELS(FARANDOLE_MOVE_KERNEL)};
#undef FARANDOLE_MOVE_KERNEL

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;
// More than the largest device runs at a time, so that the last of them end together.
constexpr int64_t kBlocksMax = 2048;
// Of a warp. Few elements are spread over many warps, since pieces may be small and a warp takes them one by one.
constexpr int64_t kChunkMin = 128;
constexpr int64_t kChunkMax = 4096;

int64_t Quotient(int64_t a, int64_t b) { return (a + b - 1) / b; }

}  // namespace

absl::StatusOr<std::unique_ptr<const Kernels>> Kernels::Load(const cuda::Driver* driver, absl::string_view image) {
  if (image.empty()) {
    return absl::FailedPreconditionError(
        "this build of Farandole has no GPU kernels, since clang was not there when it was compiled");
  }
  std::unique_ptr<Kernels> kernels(new Kernels(driver));
  const cuda::DriverApi& api = driver->api();
  absl::Status loaded = driver->ToStatus(api.cuCtxGetCurrent(&kernels->context_), "cuCtxGetCurrent");
  if (loaded.ok()) {
    loaded = driver->ToStatus(api.cuModuleLoadData(&kernels->module_, image.data()), "cuModuleLoadData");
    if (!loaded.ok()) kernels->module_ = nullptr;
  }
  if (loaded.ok()) loaded = kernels->FindFunctions();
  if (loaded.ok()) return kernels;
  return absl::UnavailableError(
      absl::StrCat("the CUDA driver ", driver->path(), " does not take Farandole's GPU kernels: ", loaded.message()));
}

absl::Status Kernels::FindFunctions() {
  for (const MoveKernel& kernel : kMoves) {
    cuda::CUfunction* const function = &moves_[{kernel.from, kernel.to}];
    absl::Status found = driver_.ToStatus(driver_.api().cuModuleGetFunction(function, module_, kernel.name),
                                          absl::StrCat("cuModuleGetFunction of ", kernel.name));
    if (!found.ok()) return found;
  }
  return absl::OkStatus();
}

// Errors have no reader: a context that is gone has taken the module along.
Kernels::~Kernels() {
  if (module_ == nullptr) return;
  const cuda::DriverApi& api = driver_.api();
  cuda::CUcontext before = nullptr;
  api.cuCtxGetCurrent(&before);
  api.cuCtxSetCurrent(context_);
  api.cuModuleUnload(module_);
  api.cuCtxSetCurrent(before);
}

bool Kernels::CanMove(DataType from, DataType to) {
  return std::any_of(std::begin(kMoves), std::end(kMoves),
                     [&](const MoveKernel& kernel) { return kernel.from == from && kernel.to == to; });
}

absl::Status Kernels::Move(DataType from, DataType to, cuda::CUdeviceptr table, int pieces, int64_t elements,
                           cuda::CUstream stream) const {
  const auto found = moves_.find({from, to});
  if (found == moves_.end()) {
    return absl::InvalidArgumentError(absl::StrCat("no GPU kernel makes ", Name(to), " of ", Name(from)));
  }
  if (elements <= 0) return absl::OkStatus();
  int64_t chunk = std::min(std::max(Quotient(elements, kBlocksMax * kWarps), kChunkMin), kChunkMax);
  const int64_t blocks = std::min(Quotient(elements, chunk * kWarps), kBlocksMax);
  void* arguments[] = {&table, &pieces, &elements, &chunk};
  return driver_.ToStatus(driver_.api().cuLaunchKernel(found->second, static_cast<unsigned>(blocks), 1, 1, kThreads, 1,
                                                       1, 0, stream, arguments, nullptr),
                          "cuLaunchKernel");
}

}  // namespace farandole::worker::kernels
