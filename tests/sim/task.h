#ifndef FARANDOLE_TESTS_SIM_TASK_H_
#define FARANDOLE_TESTS_SIM_TASK_H_

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

namespace farandole::sim {

// A call to be made once, like std::function<void()>, but movable only and with room for what events hold, so that
// making one allocates nothing as a rule.
class Task {
 public:
  Task() = default;
  template <typename F, typename = std::enable_if_t<!std::is_same_v<std::decay_t<F>, Task>>>
  Task(F&& fn) {
    using Fn = std::decay_t<F>;
    if constexpr (sizeof(Fn) <= kRoom && alignof(Fn) <= alignof(void*)) {
      new (room_) Fn(std::forward<F>(fn));
      does_ = &InPlace<Fn>;
    } else {
      using Owner = std::unique_ptr<Fn>;
      new (room_) Owner(std::make_unique<Fn>(std::forward<F>(fn)));
      does_ = &Owned<Owner>;
    }
  }
  Task(Task&& o) noexcept : does_(std::exchange(o.does_, nullptr)) {
    if (does_ != nullptr) does_(Step::kMove, o.room_, room_);
  }
  Task& operator=(Task&& o) noexcept {
    Reset();
    does_ = std::exchange(o.does_, nullptr);
    if (does_ != nullptr) does_(Step::kMove, o.room_, room_);
    return *this;
  }
  ~Task() { Reset(); }

  void operator()() { does_(Step::kCall, room_, nullptr); }
  void Reset() {
    if (does_ != nullptr) std::exchange(does_, nullptr)(Step::kEnd, room_, nullptr);
  }

 private:
  enum class Step { kCall, kMove, kEnd };
  static constexpr size_t kRoom = 56;

  template <typename T>
  static void MoveOrEnd(Step step, T* at, void* to) {
    if (step == Step::kMove) new (to) T(std::move(*at));
    at->~T();
  }
  template <typename Fn>
  static void InPlace(Step step, void* at, void* to) {
    if (step == Step::kCall) return (*static_cast<Fn*>(at))();
    MoveOrEnd(step, static_cast<Fn*>(at), to);
  }
  template <typename Owner>
  static void Owned(Step step, void* at, void* to) {
    if (step == Step::kCall) return (**static_cast<Owner*>(at))();
    MoveOrEnd(step, static_cast<Owner*>(at), to);
  }

  void (*does_)(Step step, void* at, void* to) = nullptr;
  alignas(void*) unsigned char room_[kRoom];
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_TASK_H_
