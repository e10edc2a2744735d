#ifndef FARANDOLE_WORKER_COMPLETION_COMPLETER_H_
#define FARANDOLE_WORKER_COMPLETION_COMPLETER_H_

#include <pthread.h>

#include <deque>
#include <functional>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/os/event_count.h"

namespace farandole::worker::completion {

// One thread ("farandole-done") that calls what a front end wants to be told, one after the other, so that a slow
// callback stops no collective. It begins with the first submission that has one. One life of the library.
//
// Each operation posts one call, when it ends: what waits here is bounded by what the script submits without waiting
// for its callbacks, as handles are by what it does not release.
class Completer {
 public:
  using Call = std::function<void()>;

  Completer() = default;
  // Stop().
  ~Completer();
  Completer(const Completer&) = delete;
  Completer& operator=(const Completer&) = delete;

  // Idempotent. UNAVAILABLE: no thread can be made. FAILED_PRECONDITION: after Stop().
  absl::Status Start();
  // After Start(), before Stop(). Any thread, also with a lock held; never calls it itself.
  void Post(Call call);
  // True: everything that was posted has been called. False: not so after `timeout_ms`.
  bool Drain(int timeout_ms);
  // Joins the thread; what was posted has been called before. Not from a call.
  void Stop();

 private:
  static void* Main(void* self);
  void Run();

  os::EventCount changed_;
  os::EventCount drained_;
  absl::Mutex mutex_;
  std::deque<Call> queue_ ABSL_GUARDED_BY(mutex_);
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  bool started_ ABSL_GUARDED_BY(mutex_) = false;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  pthread_t thread_ ABSL_GUARDED_BY(mutex_) = {};
};

}  // namespace farandole::worker::completion

#endif  // FARANDOLE_WORKER_COMPLETION_COMPLETER_H_
