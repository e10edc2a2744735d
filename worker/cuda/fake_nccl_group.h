#ifndef FARANDOLE_WORKER_CUDA_FAKE_NCCL_GROUP_H_
#define FARANDOLE_WORKER_CUDA_FAKE_NCCL_GROUP_H_

#include <memory>
#include <string>
#include <vector>

#include "worker/cuda/fake_nccl_communicator.h"
#include "worker/cuda/fake_nccl_task.h"
#include "worker/cuda/nccl_abi.h"

namespace farandole::worker::cuda {

// What a thread has called since ncclGroupStart, and does at ncclGroupEnd. One thread.
class FakeNcclGroup {
 public:
  using Communicator = std::shared_ptr<FakeNcclCommunicator>;

  // This thread's; nullptr: it is in none.
  static FakeNcclGroup* Current();
  static void Start();
  // ncclInProgress: a non-blocking communicator goes on by itself. ncclInvalidUsage: there was no Start(). `why`: of a
  // failure that is found only now.
  static ncclResult_t End(std::string* why);

  // Of one call, or that of a group of one.
  static ncclResult_t Submit(const Communicator& communicator, FakeNcclTask task, CUstream stream, std::string* why);

  void AddInit(Communicator communicator) { inits_.push_back(std::move(communicator)); }
  // The group does nothing, and its end says this.
  void Fail(ncclResult_t result) { failure_ = failure_ == ncclSuccess ? result : failure_; }

 private:
  // What it has for one communicator.
  struct Part {
    Communicator communicator;
    std::vector<FakeNcclTask> collectives;
    FakeNcclTask pairs;
    std::vector<CUstream> streams;
  };

  void Add(const Communicator& communicator, FakeNcclTask task, CUstream stream);
  ncclResult_t Run(std::string* why);
  static ncclResult_t Launch(Part* part, std::string* why);
  static bool MatchesItself(const Part& part);

  int depth_ = 0;
  ncclResult_t failure_ = ncclSuccess;
  std::vector<Communicator> inits_;
  std::vector<Part> parts_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_NCCL_GROUP_H_
