#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator.h"
#include "worker/collective/communicator_testing.h"
#include "worker/device/device_testing.h"
#include "worker/execute/batch_run.h"

namespace farandole::worker::execute {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Enqueues at once on a stream of its own, and ends when the test says so. Notes each collective: "allreduce of 2,
// after 1 2 on device 3".
class EnqueuingCommunicator final : public collective::Communicator {
 public:
  explicit EnqueuingCommunicator(device::CountingDevice* device) : device_(device) {}
  std::string name() const override { return "enqueuing"; }
  int position() const override { return 0; }
  int size() const override { return 2; }
  int64_t FusedBytesMax(DeviceKind, device::Device*) override { return INT64_MAX; }
  void Start(const collective::Instance&, const collective::Collective& collective, const Enqueued& enqueued,
             Done done) override {
    std::string text = farandole::Name(OpOf(collective));
    for (const device::EventPtr& ready : collective.ready) text += " " + std::to_string(NumberOf(ready));
    if (collective.device != nullptr) text += " on " + std::to_string(collective.device->ordinal());
    started.push_back(text);
    if (!refusal.ok()) return done(refusal);
    if (collective.memory == DeviceKind::kHost) {
      EXPECT_EQ(enqueued, nullptr);
    } else {
      enqueued(device_->Record(nullptr).value());
    }
    under_way.push_back(std::move(done));
  }
  void Withdraw(const collective::Instance&) override {}
  void Abort(const std::string& reason) override { aborted = reason; }
  Rank SuspectRank() const override { return Rank(); }

  std::vector<std::string> started;
  std::string aborted;
  std::vector<Done> under_way;
  absl::Status refusal;

 private:
  device::CountingDevice* const device_;
};

class BatchRunDeviceTest : public testing::Test {
 protected:
  session::Operation* Add(OpKind op, DeviceKind memory, void* output = nullptr) {
    Request request;
    request.name = "x" + std::to_string(work_.operations.size());
    request.signature.op = op;
    request.signature.dtype = DataType::kFloat32;
    request.signature.shape = {2};
    request.signature.device = memory;
    std::unique_ptr<const session::Operation::OnDevice> on;
    if (memory == DeviceKind::kAccelerator) {
      on = std::make_unique<session::Operation::OnDevice>(
          session::Operation::OnDevice{&device_, &stream_, device_.Record(&stream_).value()});
    }
    work_.instance = {1, 9, 0};
    work_.operations.push_back(
        std::make_shared<session::Operation>(std::move(request), value_, output, nullptr, std::move(on)));
    work_.first_dims.emplace_back();
    return work_.operations.back().get();
  }
  void Begin() {
    run_.Begin(&work_, &group_, &communicator_);
    EXPECT_TRUE(run_.Issue());
  }
  // 0: failed before it was enqueued; -1: neither.
  static int EnqueuedAs(session::Operation* operation) {
    device::EventPtr event;
    if (!operation->WaitEnqueued(0, &event)) return -1;
    return event == nullptr ? 0 : NumberOf(event);
  }

  device::CountingDevice device_;
  EnqueuingCommunicator communicator_{&device_};
  const collective::Group group_ = collective::TestGroup(2, 0);
  session::Work work_;
  int ended_ = 0;
  BatchRun run_{{[] {}, [this] { ++ended_; }}};
  int stream_ = 0;
  float value_[2] = {1, 2};
};

TEST_F(BatchRunDeviceTest, ComesAfterWhatItsTensorsComeAfter) {
  session::Operation* const first = Add(OpKind::kAllreduce, DeviceKind::kAccelerator, value_);
  session::Operation* const second = Add(OpKind::kAllreduce, DeviceKind::kAccelerator, value_);
  EXPECT_EQ(EnqueuedAs(first), -1);
  Begin();
  EXPECT_THAT(communicator_.started, ElementsAre("allreduce 1 2 on 3"));
  EXPECT_EQ(EnqueuedAs(first), 3);
  EXPECT_EQ(EnqueuedAs(second), 3);
  EXPECT_EQ(ended_, 0) << "what is enqueued has not ended";
  communicator_.under_way[0](absl::OkStatus());
  EXPECT_EQ(ended_, 1);
  EXPECT_TRUE(run_.status().ok());
}

TEST_F(BatchRunDeviceTest, ComesAfterWhatTheMemoryOfItsResultComesAfter) {
  session::Operation* const gathered = Add(OpKind::kAllgather, DeviceKind::kAccelerator);
  work_.first_dims[0] = {2, 2};
  Begin();
  EXPECT_THAT(communicator_.started, ElementsAre("allgather 1 2 on 3"));
  EXPECT_EQ(EnqueuedAs(gathered), 3);
  communicator_.under_way[0](absl::OkStatus());
}

// The numbers travel through host memory, and tell no operation anything.
TEST_F(BatchRunDeviceTest, RowsOfAnAlltoallComeAfterTheirNumbers) {
  session::Operation* const sent = Add(OpKind::kAlltoall, DeviceKind::kAccelerator);
  run_.Begin(&work_, &group_, &communicator_);
  EXPECT_FALSE(run_.Issue());
  EXPECT_EQ(EnqueuedAs(sent), -1);
  communicator_.under_way[0](absl::OkStatus());
  EXPECT_TRUE(run_.Issue());
  EXPECT_THAT(communicator_.started, ElementsAre("alltoall", "alltoall 1 2 on 3"));
  EXPECT_EQ(EnqueuedAs(sent), 3);
  communicator_.under_way[1](absl::OkStatus());
  EXPECT_EQ(ended_, 1);
}

// As an explicit group may have them.
TEST_F(BatchRunDeviceTest, TensorsInOtherMemoryAreApart) {
  Add(OpKind::kAllreduce, DeviceKind::kHost, value_);
  Add(OpKind::kAllreduce, DeviceKind::kAccelerator, value_);
  Begin();
  EXPECT_THAT(communicator_.started, ElementsAre("allreduce", "allreduce 1 on 3"));
  for (const auto& done : communicator_.under_way) done(absl::OkStatus());
}

TEST_F(BatchRunDeviceTest, WhoWaitsHearsOfAFailure) {
  session::Operation* const failed = Add(OpKind::kAllreduce, DeviceKind::kAccelerator, value_);
  communicator_.refusal = absl::UnavailableError("rank 1 is gone");
  Begin();
  EXPECT_EQ(ended_, 1);
  EXPECT_EQ(run_.status().message(), "rank 1 is gone");
  EXPECT_EQ(EnqueuedAs(failed), -1);
  failed->Finish({completion::Code::kPeerLost, "rank 1 is gone"});
  EXPECT_EQ(EnqueuedAs(failed), 0);
}

TEST_F(BatchRunDeviceTest, ADeviceThatFailsEndsTheBatch) {
  Add(OpKind::kAllgather, DeviceKind::kAccelerator);
  work_.first_dims[0] = {2, 2};
  device_.failure = absl::DataLossError("the device is gone");
  Begin();
  EXPECT_THAT(communicator_.started, IsEmpty());
  EXPECT_EQ(run_.status(), device_.failure) << "not that there is no memory";
  EXPECT_EQ(communicator_.aborted, "the device is gone") << "or the next batch would meet this one of the others";
}

TEST_F(BatchRunDeviceTest, ADeviceThatFailsBetweenTheTwoHalvesOfAnAlltoallEndsIt) {
  Add(OpKind::kAlltoall, DeviceKind::kAccelerator);
  run_.Begin(&work_, &group_, &communicator_);
  EXPECT_FALSE(run_.Issue());
  communicator_.under_way[0](absl::OkStatus());
  device_.failure = absl::DataLossError("the device is gone");
  EXPECT_TRUE(run_.Issue());
  EXPECT_THAT(communicator_.started, ElementsAre("alltoall"));
  EXPECT_EQ(run_.status(), device_.failure);
  EXPECT_EQ(communicator_.aborted, "the device is gone");
}

}  // namespace
}  // namespace farandole::worker::execute
