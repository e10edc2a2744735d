#ifndef FARANDOLE_BASE_CALL_STEP_H_
#define FARANDOLE_BASE_CALL_STEP_H_

#include <functional>
#include <utility>

#include "base/completion_thread.h"

namespace farandole {

// One operation of a gRPC call (a read, a write, ...), used again for each operation of that kind. While it is under
// way it keeps alive what the function holds, which by custom is a reference to the call itself.
class CallStep final : public CompletionThread::Tag {
 public:
  using Function = std::function<void(bool ok)>;

  // The operation ends in `thread`.
  explicit CallStep(CompletionThread* thread) : thread_(thread) {}
  CallStep(const CallStep&) = delete;
  CallStep& operator=(const CallStep&) = delete;

  // The tag for gRPC; `fn` runs when the operation has ended.
  void* Arm(Function fn) {
    thread_->Hold();
    fn_ = std::move(fn);
    return static_cast<CompletionThread::Tag*>(this);
  }
  // gRPC will not end this one.
  void Disarm() {
    CompletionThread* const thread = thread_;
    fn_ = nullptr;
    thread->Release();
  }

  void End(bool ok) override {
    CompletionThread* const thread = thread_;
    {
      // It may arm this again, or hold the last reference to this.
      const Function fn = std::exchange(fn_, nullptr);
      fn(ok);
    }
    thread->Release();
  }

 private:
  CompletionThread* const thread_;
  Function fn_;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_CALL_STEP_H_
