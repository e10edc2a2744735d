#ifndef FARANDOLE_WORKER_LINK_FAKE_LINK_TESTING_H_
#define FARANDOLE_WORKER_LINK_FAKE_LINK_TESTING_H_

#include <deque>
#include <functional>
#include <string>
#include <utility>
#include <variant>

#include "absl/synchronization/mutex.h"
#include "base/event_loop.h"
#include "gtest/gtest.h"
#include "worker/link/control_link.h"
#include "worker/os/event_count.h"

namespace farandole::worker::link {

inline constexpr GenerationId kGeneration{1, 100};
inline constexpr int kLong = 20000;  // milliseconds; a bound for what must come

// A controller played by the test: hears what the runtime says, says what the test wants.
class FakeLink final : public ControlLink {
 public:
  FakeLink(EventLoop* loop, Incarnation worker) : loop_(loop), worker(worker) {}

  void StartFromLoop(Listener* listener) override {
    listener_ = listener;
    started_.Advance();
  }
  void Send(const WorkerUp& message) override {
    {
      absl::MutexLock lock(&mutex_);
      heard_.push_back(message);
    }
    heard_count_.Advance();
  }
  absl::Status Put(const GenerationId&, const std::string&, const std::string&) override { return ended_; }
  absl::StatusOr<std::string> Get(const GenerationId&, const std::string&, uint32_t) override { return ended_; }
  absl::StatusOr<UniqueFd> Segment(const GenerationId&, const std::string&, uint64_t) override { return ended_; }
  void EndWaits(const std::string&) override {}

  template <typename T>
  T Hear() {
    for (;;) {
      const uint32_t seen = heard_count_.Value();
      {
        absl::MutexLock lock(&mutex_);
        if (!heard_.empty()) {
          WorkerUp first = std::move(heard_.front());
          heard_.pop_front();
          EXPECT_TRUE(std::holds_alternative<T>(first)) << "message " << first.index();
          return std::get<T>(first);
        }
      }
      if (!heard_count_.WaitPast(seen, kLong)) {
        ADD_FAILURE() << "nothing was said";
        return T();
      }
    }
  }
  bool silent() {
    absl::MutexLock lock(&mutex_);
    return heard_.empty();
  }
  void Say(WorkerDown message) {
    loop_->Post([this, message] { listener_->OnReceived(message); });
  }
  WorkerReport Report() { return listener_->Report(); }
  // In the calling thread; `then` while that still runs the control loop.
  void SayHere(const WorkerDown& message, const std::function<void()>& then) {
    loop_->RunHere([&] {
      listener_->OnReceived(message);
      then();
    });
  }
  void State(bool connected, const std::string& text = "", bool permanent = false,
             const std::string& data_address = "") {
    while (started_.Value() == 0) started_.WaitPast(0, kLong);
    loop_->Post([=] { listener_->OnLinkState(LinkState{connected, text, permanent, data_address}); });
  }

  EventLoop* const loop_;
  const Incarnation worker;

 private:
  const absl::Status ended_ = absl::AbortedError("over");
  Listener* listener_ = nullptr;
  os::EventCount started_;
  os::EventCount heard_count_;
  absl::Mutex mutex_;
  std::deque<WorkerUp> heard_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::link

#endif  // FARANDOLE_WORKER_LINK_FAKE_LINK_TESTING_H_
