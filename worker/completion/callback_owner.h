#ifndef FARANDOLE_WORKER_COMPLETION_CALLBACK_OWNER_H_
#define FARANDOLE_WORKER_COMPLETION_CALLBACK_OWNER_H_

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/os/event_count.h"

namespace farandole::worker::completion {

// A front end whose code may be unloaded: none of its callbacks begins once it is withdrawn. Any thread.
class CallbackOwner {
 public:
  // While it lives, Withdraw does not return true. False in `entered()`: withdrawn, so the callback must not run.
  class Call {
   public:
    // `owner` may be null: the callbacks are never withdrawn.
    explicit Call(CallbackOwner* owner);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;
    bool entered() const { return entered_; }

   private:
    CallbackOwner* const owner_;
    bool entered_;
  };

  bool withdrawn() const;
  // True: no callback runs. False: one still does after `timeout_ms`, or the calling thread is in one.
  bool Withdraw(int timeout_ms);

  // Whether the calling thread is in a callback, of whatever owner.
  static bool InCall();

 private:
  bool Enter();
  void Leave();

  mutable absl::Mutex mutex_;
  bool withdrawn_ ABSL_GUARDED_BY(mutex_) = false;
  int running_ ABSL_GUARDED_BY(mutex_) = 0;
  os::EventCount left_;  // the last one that ran after Withdraw is over
};

}  // namespace farandole::worker::completion

#endif  // FARANDOLE_WORKER_COMPLETION_CALLBACK_OWNER_H_
