#ifndef FARANDOLE_WORKER_CUDA_FAKE_CUDA_MODULE_H_
#define FARANDOLE_WORKER_CUDA_FAKE_CUDA_MODULE_H_

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "worker/cuda/driver_abi.h"
#include "worker/cuda/fake_cuda.h"

namespace farandole::worker::cuda {

// A kernel of the fake driver.
struct CUfunc_st {
  FakeKernel kernel;
  std::vector<size_t> argument_sizes;

  // Queues it with a copy of the arguments.
  void Launch(CUstream stream, void** arguments) const;
};

// The kernels that a test has added. Any thread.
class FakeCudaKernels {
 public:
  // Never destroyed, as the memory.
  static FakeCudaKernels& Get();

  // Instead of the one of that name, whose CUfunction stays valid.
  void Add(const std::string& name, CUfunc_st kernel);
  // nullptr: there is none of that name.
  CUfunction Find(const std::string& name);

 private:
  std::mutex mutex_;
  // The last of a name counts.
  std::map<std::string, std::vector<std::unique_ptr<CUfunc_st>>> kernels_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_CUDA_MODULE_H_
