#ifndef FARANDOLE_BASE_CALL_STEP_H_
#define FARANDOLE_BASE_CALL_STEP_H_

#include <functional>
#include <utility>

namespace farandole {

// One operation of a gRPC call (a read, a write, ...), used again for each operation of that kind. While it is under
// way it keeps alive what the function holds, which by custom is a reference to the call itself.
class CallStep {
 public:
  using Function = std::function<void(bool ok)>;

  CallStep() = default;
  CallStep(const CallStep&) = delete;
  CallStep& operator=(const CallStep&) = delete;

  // The tag for gRPC. CompletionThread calls `fn` when the operation has ended.
  void* Arm(Function fn) {
    fn_ = std::move(fn);
    return this;
  }
  // gRPC will not end this one.
  void Disarm() { fn_ = nullptr; }

  void End(bool ok) {
    // The function may arm this again, or hold the last reference to it.
    const Function fn = std::exchange(fn_, nullptr);
    fn(ok);
  }

 private:
  Function fn_;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_CALL_STEP_H_
