#ifndef FARANDOLE_WORKER_CUDA_FAKE_NCCL_COMMUNICATOR_H_
#define FARANDOLE_WORKER_CUDA_FAKE_NCCL_COMMUNICATOR_H_

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "worker/cuda/fake_cuda.h"
#include "worker/cuda/fake_nccl.h"
#include "worker/cuda/fake_nccl_link.h"
#include "worker/cuda/fake_nccl_meeting.h"
#include "worker/cuda/fake_nccl_task.h"
#include "worker/cuda/nccl_abi.h"

namespace farandole::worker::cuda {

// A communicator of the fake NCCL. Any thread. Its kernels share it, so that one that a stream reaches after the abort
// finds that there is nothing to do.
class FakeNcclCommunicator : public std::enable_shared_from_this<FakeNcclCommunicator> {
 public:
  struct Size {
    int rank;
    int ranks;
  };
  using Log = std::function<void(const std::string& text)>;

  // `log` keeps the text of what fails later.
  FakeNcclCommunicator(FakeNccl* knobs, FakeCuda* cuda, Size size, bool blocking, Log log);
  ~FakeNcclCommunicator();

  // One of these, once. The init goes on in a thread of its own.
  void InitByMeeting(const std::string& name);
  void InitBySplit(FakeNcclCommunicator* parent, int color, int key);
  // Until the init has ended: how.
  ncclResult_t WaitForInit();

  // Without side effect. ncclInvalidUsage or the asynchronous error: it must not be used now.
  ncclResult_t Usable(std::string* why);
  // What ncclCommGetAsyncError says. It may queue work, see FakeNccl::polls_in_progress.
  ncclResult_t Poll();

  // Queues the work of a call or group: in order `tasks`, when all streams have come to it. ncclInProgress: later.
  ncclResult_t Launch(std::vector<FakeNcclTask> tasks, const std::vector<CUstream>& streams);

  // Waits for its work if it is blocking; Poll() tells otherwise.
  ncclResult_t Finalize();
  // False: a CUDA error keeps its work from ending, or it takes too long.
  bool WaitForWork();
  // Ends what waits, gives back everything. Idempotent.
  void Abort();

  ncclRedOp_t AddOp(FakeNcclScalar factor, ncclDataType_t type);
  bool RemoveOp(ncclRedOp_t op);
  // False: there is none.
  bool FindOp(ncclRedOp_t op, FakeNcclScalar* factor, ncclDataType_t* type);

  void* Register(void* memory);
  bool Deregister(void* handle);

  int rank() const { return size_.rank; }
  int ranks() const { return size_.ranks; }
  int device() const { return device_; }
  bool blocking() const { return blocking_; }

 private:
  // What a launch has put on streams.
  struct Work {
    std::shared_ptr<FakeNcclCommunicator> communicator;
    std::vector<FakeNcclTask> tasks;
    std::vector<CUstream> streams;
    int64_t number = 0;
    // Of its streams.
    size_t come = 0;
    bool done = false;
  };
  // The argument of its kernel.
  struct Visit {
    std::shared_ptr<Work> work;
    bool first;
  };
  struct Op {
    FakeNcclScalar factor;
    ncclDataType_t type;
  };

  static void Kernel(void** arguments);
  void Start(std::function<FakeNcclMeeting::Result()> meet);
  void EndInit(FakeNcclMeeting::Result met);
  FakeNcclMeeting::Result Meet(const std::string& name, int color, int key, Size size);
  ncclResult_t StateLocked();
  ncclResult_t QueueLocked(const std::shared_ptr<Work>& work);
  void Visited(Work* work, bool first);
  bool RunTasks(const Work& work);
  void Fail(ncclResult_t result, const std::string& text);
  void FailLocked(ncclResult_t result, const std::string& text);
  // Waits for `ready` or the abort; true: ready.
  bool WaitLocked(std::unique_lock<std::mutex>* lock, const std::function<bool()>& ready);
  bool Concerned() const { return knobs_->at_rank == FakeNccl::kEveryRank || knobs_->at_rank == size_.rank; }

  FakeNccl* const knobs_;
  FakeCuda* const cuda_;
  Size size_;
  const int device_;
  const bool blocking_;
  const Log log_;
  FakeNcclInterrupt interrupt_;
  std::string name_;
  std::thread init_;

  std::mutex mutex_;
  std::condition_variable changed_;
  ncclResult_t state_ = ncclInProgress;
  std::string text_;
  bool aborted_ = false;
  bool finalizing_ = false;
  std::unique_ptr<FakeNcclLinks> links_;
  int splits_ = 0;
  // The last that was split from this one.
  std::shared_ptr<FakeNcclCommunicator> child_;
  int64_t launched_ = 0;
  int64_t ended_ = 0;
  int running_ = 0;
  std::shared_ptr<Work> delayed_;
  int polls_left_ = 0;
  std::map<ncclRedOp_t, Op> ops_;
  std::set<void*> registered_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_NCCL_COMMUNICATOR_H_
