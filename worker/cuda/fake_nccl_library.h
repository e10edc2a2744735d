#ifndef FARANDOLE_WORKER_CUDA_FAKE_NCCL_LIBRARY_H_
#define FARANDOLE_WORKER_CUDA_FAKE_NCCL_LIBRARY_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>

#include "worker/cuda/fake_cuda.h"
#include "worker/cuda/fake_nccl.h"
#include "worker/cuda/fake_nccl_communicator.h"
#include "worker/cuda/nccl_abi.h"

namespace farandole::worker::cuda {

// What the fake NCCL has once in a process. Any thread.
class FakeNcclLibrary {
 public:
  using Communicator = std::shared_ptr<FakeNcclCommunicator>;

  // Destroyed when the library is closed, or the process ends: it aborts what is left.
  static FakeNcclLibrary& Get();

  FakeNccl& knobs() { return knobs_; }
  // nullptr: the process has no libcuda.so.1.
  FakeCuda* cuda();

  // Keeps `text` for ncclGetLastError; returns `result`.
  ncclResult_t Fail(ncclResult_t result, const std::string& text);
  // Of this or any other thread, as NCCL's.
  const char* last_error();

  // A handle is never used again, so that one that is no longer valid is known.
  ncclComm_t Add(Communicator communicator);
  // nullptr: there is none.
  Communicator Find(ncclComm_t handle);
  Communicator Remove(ncclComm_t handle);

  // What FakeNccl::failing_call asks for; `rank` of the communicator, or kEveryRank.
  bool MustFail(const char* call, int rank, ncclResult_t* result);

 private:
  FakeNcclLibrary();
  ~FakeNcclLibrary();
  static void Reset();

  FakeNccl knobs_;
  std::mutex mutex_;
  // Texts stay, since ncclGetLastError hands out pointers.
  std::set<std::string> texts_;
  const char* last_error_ = "";
  uintptr_t last_handle_ = 0;
  std::map<ncclComm_t, Communicator> communicators_;
  int passed_ = 0;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_NCCL_LIBRARY_H_
