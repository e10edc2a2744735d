#ifndef FARANDOLE_WORKER_HIER_ACROSS_THREAD_H_
#define FARANDOLE_WORKER_HIER_ACROSS_THREAD_H_

#include <functional>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

namespace farandole::worker::hier {

// A thread, "farandole-hier", in which one piece of a collective crosses hosts while the caller's thread is at work on
// others in shared memory. It starts with the first call.
class AcrossThread {
 public:
  using Call = std::function<absl::Status()>;

  AcrossThread() = default;
  // What is under way is waited for.
  ~AcrossThread();
  AcrossThread(const AcrossThread&) = delete;
  AcrossThread& operator=(const AcrossThread&) = delete;

  // The former call has been waited for. RESOURCE_EXHAUSTED: the system gives no thread.
  absl::Status Begin(Call call);
  // What the call that was begun last has returned; OK if it has been asked for already.
  absl::Status Await();

 private:
  void Run();
  bool HasWork() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return call_ != nullptr || ending_; }
  bool IsDone() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !under_way_; }

  std::thread thread_;
  absl::Mutex mutex_;
  Call call_ ABSL_GUARDED_BY(mutex_);
  bool under_way_ ABSL_GUARDED_BY(mutex_) = false;
  bool ending_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::hier

#endif  // FARANDOLE_WORKER_HIER_ACROSS_THREAD_H_
