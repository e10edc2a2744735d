#ifndef FARANDOLE_WORKER_RUNTIME_TESTING_H_
#define FARANDOLE_WORKER_RUNTIME_TESTING_H_

#include <sched.h>

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collective/blocking_adapter.h"
#include "worker/os/event_count.h"
#include "worker/runtime.h"

namespace farandole::worker {

inline constexpr GenerationId kGeneration{1, 100};
inline constexpr int kLong = 20000;  // milliseconds; a bound for what must come

// A controller played by the test: hears what the runtime says, says what the test wants.
class FakeLink final : public link::ControlLink {
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
  void State(bool connected, const std::string& text = "", bool permanent = false) {
    while (started_.Value() == 0) started_.WaitPast(0, kLong);
    loop_->Post([=] { listener_->OnLinkState(LinkState{connected, text, permanent}); });
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

// Two ranks that contribute the same; can be told to fail, or to wait in a collective until Abort.
class FakeCommunicator final : public collective::BlockingCommunicator {
 public:
  struct Control {
    absl::Status status;
    bool hang = false;
    std::atomic<bool> withdrawn{false};  // an allreduce that hangs ends with CANCELLED
    os::EventCount entered;
    os::EventCount aborted;
  };
  explicit FakeCommunicator(Control* control) : control_(control) {}

  std::string name() const override { return "fake"; }
  int position() const override { return 0; }
  int size() const override { return 2; }
  void* Buffer(int64_t) override { return nullptr; }
  absl::Status Allreduce(const collective::Instance&, const arithmetic::Reduction&, void* data,
                         int64_t count) override {
    control_->entered.Advance();
    if (control_->hang) {
      while (control_->aborted.Value() == 0) control_->aborted.WaitPast(0, -1);
      if (control_->withdrawn) return absl::CancelledError("withdrawn");
      return absl::AbortedError("aborted");
    }
    for (int64_t i = 0; i < count; ++i) static_cast<float*>(data)[i] *= 2;
    return control_->status;
  }
  absl::Status Allgather(const collective::Instance&, const void*, void*, const std::vector<int64_t>&) override {
    return control_->status;
  }
  absl::Status Alltoall(const collective::Instance&, const void*, void*, const std::vector<int64_t>&,
                        const std::vector<int64_t>&) override {
    return control_->status;
  }
  absl::Status Broadcast(const collective::Instance&, int, void*, int64_t) override { return control_->status; }
  absl::Status Barrier(const collective::Instance&) override { return control_->status; }
  void Withdraw(const collective::Instance&) override { control_->withdrawn = true; }
  void Abort(const std::string&) override { control_->aborted.Advance(); }
  Rank SuspectRank() const override { return Rank(1); }

 private:
  Control* const control_;
};

class RuntimeTest : public testing::Test {
 protected:
  void Make(uint32_t start_timeout_ms = kLong, Runtime::Limits limits = {kLong, kLong}) {
    Config config;
    config.start_timeout_ms = start_timeout_ms;
    Make(std::move(config), limits);
  }

  void MakeElastic(uint32_t start_timeout_ms, uint32_t elastic_timeout_ms) {
    Config config;
    config.start_timeout_ms = start_timeout_ms;
    config.elastic_timeout_ms = elastic_timeout_ms;
    config.min_size = 2;
    config.max_size = 3;
    Make(std::move(config), {kLong, kLong});
  }

  void Make(Config config, Runtime::Limits limits) {
    config.agent_socket = "fake";
    config.size = 2;
    config.controller_timeout_ms = controller_timeout_ms_;
    runtime_ = std::make_unique<Runtime>(
        config,
        [this](EventLoop* loop, Incarnation worker) {
          auto link = std::make_unique<FakeLink>(loop, worker);
          link_ = link.get();
          return link;
        },
        [this](const collective::Group& group, collective::Bootstrap* bootstrap) { return Build(group, bootstrap); },
        limits, Runtime::Past{6, Rank(5)});
    ASSERT_TRUE(runtime_->Start().ok());
  }

  absl::StatusOr<std::unique_ptr<collective::Communicator>> Build(const collective::Group& group,
                                                                  collective::Bootstrap* bootstrap) {
    if (!build_.ok()) return build_;
    return std::make_unique<collective::BlockingAdapter>(std::make_unique<FakeCommunicator>(&control_));
  }

  void Join(Runtime::Limits limits = {kLong, kLong}) {
    Make(kLong, limits);
    BecomeMember();
    ASSERT_EQ(runtime_->WaitReady(kLong).code, completion::Code::kOk);
  }
  void BecomeMember() {
    link_->State(true);
    EXPECT_EQ(link_->Hear<Hello>().session, 1u);
    link_->Say(Welcome{1, 100, {}});
    View view;
    view.generation = kGeneration;
    view.members.resize(2);
    view.members[0].rank = Rank(0);
    view.members[0].worker_incarnation = link_->worker;
    view.members[1].rank = Rank(1);
    view.members[1].worker_incarnation = Incarnation(1);
    link_->Say(view);
  }

  static Request MakeRequest(const std::string& name) {
    Request request;
    request.name = name;
    request.signature.op = OpKind::kAllreduce;
    request.signature.dtype = DataType::kFloat32;
    request.signature.reduce_op = ReduceOp::kSum;
    return request;
  }
  std::shared_ptr<session::Operation> Submit(const std::string& name) {
    auto operation = std::make_shared<session::Operation>(MakeRequest(name), &value_, &value_);
    const completion::Result result = runtime_->Submit(operation);
    EXPECT_EQ(result.code, completion::Code::kOk) << result.text;
    return operation;
  }
  void Dispatch(uint64_t index, const std::string& name) {
    link_->Say(Item{kGeneration, 0, index, Batch{0, {{name, {}, 0, {}}}}});
  }

  void BeginReplay(uint64_t index, const std::vector<std::vector<std::string>>& batches) {
    Replay replay;
    for (const auto& names : batches) {
      replay.period.batches.emplace_back();
      for (const std::string& name : names) replay.period.batches.back().requests.push_back(MakeRequest(name));
    }
    link_->Say(Item{kGeneration, 0, index, replay});
    while (link_->Report().state != WorkerState::kReplay) sched_yield();
  }

  uint32_t controller_timeout_ms_ = kLong;
  float value_ = 3;
  absl::Status build_;
  FakeCommunicator::Control control_;
  FakeLink* link_ = nullptr;
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace farandole::worker

#endif  // FARANDOLE_WORKER_RUNTIME_TESTING_H_
