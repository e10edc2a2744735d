#ifndef FARANDOLE_WORKER_RUNTIME_TESTING_H_
#define FARANDOLE_WORKER_RUNTIME_TESTING_H_

#include <sched.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collective/blocking_adapter.h"
#include "worker/collective/fake_device_testing.h"
#include "worker/link/fake_link_testing.h"
#include "worker/os/event_count.h"
#include "worker/runtime.h"

namespace farandole::worker {

using link::FakeLink;
using link::kGeneration;
using link::kLong;

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
        limits, Runtime::Past{6, Rank(5), 4, 3});
    ASSERT_TRUE(runtime_->Start().ok());
  }

  absl::StatusOr<std::unique_ptr<collective::Communicator>> Build(const collective::Group& group,
                                                                  collective::Bootstrap* bootstrap) {
    if (!build_.ok()) return build_;
    built_at_ = group.data_address;
    if (device_ != nullptr) return std::make_unique<collective::FakeDevice>(device_);
    return std::make_unique<collective::BlockingAdapter>(std::make_unique<FakeCommunicator>(&control_));
  }

  void Join(Runtime::Limits limits = {kLong, kLong}) {
    Make(kLong, limits);
    BecomeMember();
    ASSERT_EQ(runtime_->WaitReady(kLong).code, completion::Code::kOk);
  }
  void BecomeMember() {
    link_->State(true, "", false, "10.0.0.7");
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
  std::string built_at_;  // once an operation has ended
  FakeCommunicator::Control control_;
  collective::FakeDevice::Control* device_ = nullptr;  // null: collectives run as control_ says
  FakeLink* link_ = nullptr;
  std::unique_ptr<Runtime> runtime_;
};

}  // namespace farandole::worker

#endif  // FARANDOLE_WORKER_RUNTIME_TESTING_H_
