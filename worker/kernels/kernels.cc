#include "worker/kernels/kernels.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "worker/kernels/adasum.h"
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

struct AdasumKernels {
  const char* products;
  const char* sum;
  DataType type;
};

#define FARANDOLE_ADASUM_KERNEL(name, type, Reals) {"adasum_products_" #name, "adasum_sum_" #name, DataType::type},
constexpr AdasumKernels kAdasums[] = {FARANDOLE_ADASUM_KERNELS(FARANDOLE_ADASUM_KERNEL)};
#undef FARANDOLE_ADASUM_KERNEL

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
    if (status.ok()) status = Find(kernel.name, &moves_[{kernel.from, kernel.to}]);
  }
  for (const AdasumKernels& kernel : kAdasums) {
    if (status.ok()) status = Find(kernel.products, &adasum_products_[kernel.type]);
    if (status.ok()) status = Find(kernel.sum, &adasum_sums_[kernel.type]);
  }
  return status.ok() ? Find("adasum_weights", &adasum_weights_) : status;
}

absl::Status Kernels::Find(const std::string& name, cuda::CUfunction* function) const {
  return device_->ToStatus(device_->api().cuModuleGetFunction(function, module_, name.c_str()),
                           absl::StrCat("cuModuleGetFunction of ", name));
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
  return Launch(found->second, grid.blocks, arguments, stream);
}

absl::Status Kernels::Launch(cuda::CUfunction function, int64_t blocks, void** arguments, cuda::CUstream stream) const {
  return device_->ToStatus(device_->api().cuLaunchKernel(function, static_cast<unsigned>(blocks), 1, 1, Grid::kThreads,
                                                         1, 1, 0, stream, arguments, nullptr),
                           "cuLaunchKernel");
}

absl::Status Kernels::LaunchOnShare(const std::map<DataType, cuda::CUfunction>& functions, DataType type,
                                    AdasumCall call, cuda::CUstream stream) const {
  const auto found = functions.find(type);
  if (found == functions.end()) return absl::InvalidArgumentError(absl::StrCat("no Adasum of ", Name(type)));
  if (call.count <= 0) return absl::OkStatus();
  Grid grid(call.count, device_->multiprocessors());
  void* arguments[] = {&call, &grid.chunk};
  return Launch(found->second, grid.blocks, arguments, stream);
}

absl::Status Kernels::AddAdasumProducts(DataType type, const AdasumCall& call, cuda::CUstream stream) const {
  return LaunchOnShare(adasum_products_, type, call, stream);
}

absl::Status Kernels::FillAdasumWeights(const AdasumCall& call, cuda::CUstream stream) const {
  AdasumCall argument = call;
  void* arguments[] = {&argument};
  return Launch(adasum_weights_, (call.pieces + Grid::kThreads - 1) / Grid::kThreads, arguments, stream);
}

absl::Status Kernels::AddWeighted(DataType type, const AdasumCall& call, cuda::CUstream stream) const {
  return LaunchOnShare(adasum_sums_, type, call, stream);
}

}  // namespace farandole::worker::kernels
