#ifndef FARANDOLE_WORKER_CUDA_FAKE_NCCL_CALL_H_
#define FARANDOLE_WORKER_CUDA_FAKE_NCCL_CALL_H_

#include <cstddef>
#include <string>

#include "worker/cuda/fake_nccl_library.h"
#include "worker/cuda/fake_nccl_task.h"
#include "worker/cuda/nccl_abi.h"

namespace farandole::worker::cuda {

// A call that asks a communicator for work: its arguments are tried in turn, the first failure is its result, and
// within a group that of the group.
class FakeNcclCall {
 public:
  FakeNcclCall(const char* name, ncclComm_t handle, CUstream stream);

  ncclResult_t Collective(FakeNcclTask task, const void* in, void* out, ncclRedOp_t op);
  ncclResult_t Pair(FakeNcclTask::Pair pair, const void* memory);

  // For other calls. Within a group its end says it, too.
  static ncclResult_t Refuse(ncclResult_t result, const std::string& text);
  // Finds a communicator that can be used now.
  static ncclResult_t Ready(const char* call, ncclComm_t handle, FakeNcclLibrary::Communicator* communicator);
  // Where the device reaches `bytes` at `memory`; nullptr: it is not memory of `device`.
  static char* OnDevice(const void* memory, size_t bytes, int device);

 private:
  bool good() const { return result_ == ncclSuccess; }
  void Must(bool is_so, ncclResult_t result, const char* text);
  void Type(ncclDataType_t type);
  void Peer(int peer, const char* what);
  void Operation(ncclRedOp_t op, FakeNcclTask* task);
  // Null only for no bytes.
  char* Memory(const void* memory, size_t count, ncclDataType_t type);
  ncclResult_t Submit(FakeNcclTask task);

  const char* const name_;
  const CUstream stream_;
  ncclResult_t result_ = ncclSuccess;
  FakeNcclLibrary::Communicator communicator_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_NCCL_CALL_H_
