#ifndef FARANDOLE_WORKER_EXECUTE_EXECUTOR_TESTING_H_
#define FARANDOLE_WORKER_EXECUTE_EXECUTOR_TESTING_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/execute/executor.h"
#include "worker/os/event_count.h"

namespace farandole::worker::execute {

// Notes what it is told: "done 3" for the item of index 3.
class NotingOwner final : public Executor::Owner {
 public:
  void OnDone(session::Work work) override { Note("done", work); }
  void OnBroken(session::Work work, const absl::Status& reason, Rank suspect) override {
    Note(std::string(reason.message()), work);
  }
  void OnWithdrawn(session::Work work) override { Note("withdrawn", work); }
  // Waits for `count` calls and returns them all.
  std::vector<std::string> Calls(uint32_t count) {
    for (uint32_t seen = count_.Value(); seen < count; seen = count_.Value()) {
      if (!count_.WaitPast(seen, 20000)) break;
    }
    absl::MutexLock lock(&mutex_);
    return calls_;
  }

 private:
  void Note(const std::string& what, const session::Work& work) {
    {
      absl::MutexLock lock(&mutex_);
      calls_.push_back(what + " " + std::to_string(work.instance.anchor));
    }
    count_.Advance();
  }

  os::EventCount count_;
  absl::Mutex mutex_;
  std::vector<std::string> calls_ ABSL_GUARDED_BY(mutex_);
};

inline session::Work ItemWork(uint64_t index, session::Work::Kind kind) {
  session::Work work;
  work.kind = kind;
  work.instance = {1, index, 0};
  return work;
}

// One allreduce of a number of its own; in host memory, whatever is claimed.
inline session::Work BatchWork(uint64_t index, uint32_t process_set = 0, bool final = false) {
  session::Work work = ItemWork(index, session::Work::Kind::kBatch);
  work.process_set = process_set;
  work.final = final;
  Request request;
  request.signature.op = OpKind::kAllreduce;
  request.signature.dtype = DataType::kFloat32;
  static float* const value = new float(1);
  work.operations.push_back(std::make_shared<session::Operation>(request, value, value));
  work.first_dims.emplace_back();
  return work;
}

}  // namespace farandole::worker::execute

#endif  // FARANDOLE_WORKER_EXECUTE_EXECUTOR_TESTING_H_
