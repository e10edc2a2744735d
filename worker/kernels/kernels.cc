#include "worker/kernels/kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/kernels/grid.h"
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

}  // namespace

absl::StatusOr<std::unique_ptr<const Kernels>> Kernels::Load(const cuda::CudaDevice* device, absl::string_view image) {
  if (image.empty()) {
    return absl::FailedPreconditionError(
        "this build of Farandole has no GPU kernels, since clang was not there when it was compiled");
  }
  std::unique_ptr<Kernels> kernels(new Kernels(device));
  const absl::Status loaded = kernels->LoadModule(image);
  if (loaded.ok()) return kernels;
  return absl::Status(loaded.code(), absl::StrCat("Farandole's GPU kernels cannot be loaded on ", device->name(), ": ",
                                                  loaded.message()));
}

absl::Status Kernels::LoadModule(absl::string_view image) {
  const cuda::CudaDevice::Current current(device_);
  const cuda::DriverApi& api = device_->api();
  cuda::CUmodule module = nullptr;
  absl::Status status = device_->ToStatus(api.cuModuleLoadData(&module, image.data()), "cuModuleLoadData");
  if (status.ok()) module_ = module;
  for (const MoveKernel& kernel : kMoves) {
    if (!status.ok()) return status;
    status = device_->ToStatus(api.cuModuleGetFunction(&moves_[{kernel.from, kernel.to}], module_, kernel.name),
                               absl::StrCat("cuModuleGetFunction of ", kernel.name));
  }
  return status;
}

// An error has no reader; a device that has failed has taken the module along.
Kernels::~Kernels() {
  if (module_ == nullptr) return;
  const cuda::CudaDevice::Current current(device_);
  device_->api().cuModuleUnload(module_);
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
  Grid grid(elements, device_->multiprocessors());
  void* arguments[] = {&table, &pieces, &elements, &grid.chunk};
  return device_->ToStatus(device_->api().cuLaunchKernel(found->second, static_cast<unsigned>(grid.blocks), 1, 1,
                                                         Grid::kThreads, 1, 1, 0, stream, arguments, nullptr),
                           "cuLaunchKernel");
}

}  // namespace farandole::worker::kernels
