#ifndef FARANDOLE_WORKER_LIBRARY_H_
#define FARANDOLE_WORKER_LIBRARY_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "worker/completion/callback_owner.h"
#include "worker/completion/completer.h"
#include "worker/config.h"
#include "worker/handle_table.h"
#include "worker/runtime.h"
#include "worker/session/operation.h"

namespace farandole::worker {

// The state of this process behind the C ABI: at most one Runtime at a time, and the handles, which outlive it. Any
// thread. Nothing here may be called in a forked child (worker/os/fork_guard.h).
//
//   NONE --InitBegin--> STARTING --InitPoll OK--> RUNNING --ShutdownBegin--> LEAVING --ShutdownPoll OK--> NONE
//                          \--InitPoll failed, InitCancel, ShutdownBegin--> NONE
class Library {
 public:
  // Never destroyed: threads of the script may call us while the process exits.
  static Library& Get();

  completion::Result InitBegin();
  completion::Result InitPoll(int timeout_ms);
  void InitCancel();
  void ShutdownBegin();
  // OK: every operation has ended and every callback has run.
  completion::Result ShutdownPoll(int timeout_ms);

  bool running() const;
  // To be called where this process has the state of the training in its present membership; it says so when it joins
  // the next one. False: it is no member.
  bool ConfirmState();
  // nullptr unless RUNNING or LEAVING.
  std::shared_ptr<Runtime> runtime() const;
  // Calls callbacks as long as runtime() is the present one; nullptr as that.
  std::shared_ptr<completion::Completer> completer() const;
  HandleTable<session::Operation>& handles() { return handles_; }
  HandleTable<completion::CallbackOwner>& callback_owners() { return callback_owners_; }
  // "allreduce.noname.7": the same on all ranks as long as they make the same calls. Counts from 1 after each init.
  std::string NextName(OpKind op, uint32_t process_set);
  // Counts from 1 again, in all process sets.
  void ResetNames();

 private:
  enum class State { kNone, kStarting, kRunning, kLeaving };

  Library() = default;
  // Ends `runtime` if it is still the current one.
  void Drop(const std::shared_ptr<Runtime>& runtime);

  HandleTable<session::Operation> handles_;
  HandleTable<completion::CallbackOwner> callback_owners_;
  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_) = State::kNone;
  std::shared_ptr<Runtime> runtime_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<completion::Completer> completer_ ABSL_GUARDED_BY(mutex_);
  Runtime::Past past_ ABSL_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint32_t, uint64_t> names_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker

#endif  // FARANDOLE_WORKER_LIBRARY_H_
