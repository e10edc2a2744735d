#include "worker/cuda/fake_cuda_module.h"

#include <utility>

#include "worker/cuda/fake_cuda_stream.h"

namespace farandole::worker::cuda {

void CUfunc_st::Launch(CUstream stream, void** arguments) const {
  std::vector<std::string> copies;
  for (size_t i = 0; i < argument_sizes.size(); ++i) {
    copies.emplace_back(static_cast<const char*>(arguments[i]), argument_sizes[i]);
  }
  stream->Queue([run = kernel, copies = std::move(copies)]() mutable {
    std::vector<void*> pointers;
    for (std::string& copy : copies) pointers.push_back(copy.data());
    run(pointers.data());
  });
}

FakeCudaKernels& FakeCudaKernels::Get() {
  static auto* const kernels = new FakeCudaKernels();
  return *kernels;
}

void FakeCudaKernels::Add(const std::string& name, CUfunc_st kernel) {
  std::lock_guard<std::mutex> lock(mutex_);
  auto& all = kernels_[name];
  const bool there =
      !all.empty() && all.back()->kernel == kernel.kernel && all.back()->argument_sizes == kernel.argument_sizes;
  if (!there) all.push_back(std::make_unique<CUfunc_st>(std::move(kernel)));
}

CUfunction FakeCudaKernels::Find(const std::string& name) {
  std::lock_guard<std::mutex> lock(mutex_);
  const auto found = kernels_.find(name);
  return found == kernels_.end() ? nullptr : found->second.back().get();
}

}  // namespace farandole::worker::cuda
