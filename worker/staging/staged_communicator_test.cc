#include "worker/staging/staged_communicator.h"

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "worker/collective/blocking_adapter.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/nccl/device_collectives_testing.h"
#include "worker/shm/shm_communicator.h"

namespace farandole::worker::staging {
namespace {

class StagedCommunicatorTest : public testing::TestWithParam<int> {
 protected:
  // Runs `check` as each member, in threads. They share one device, which this medium is for.
  template <typename Check>
  void RunAll(const Check& check) {
    const int ranks = GetParam();
    cuda::FakeGpus gpus(1);
    collective::LocalBootstrap bootstrap;
    std::vector<std::thread> members;
    for (int position = 0; position < ranks; ++position) {
      members.emplace_back([&, position] {
        auto shm = shm::ShmCommunicator::Create(collective::TestGroup(ranks, position), &bootstrap, {});
        ASSERT_TRUE(shm.ok()) << shm.status();
        StagedCommunicator staged(std::make_unique<collective::BlockingAdapter>(*std::move(shm)), 60000);
        nccl::Member member(&staged, gpus.device(0));
        check(&member, &staged);
      });
    }
    for (std::thread& member : members) member.join();
  }
};

TEST_P(StagedCommunicatorTest, Reduces) {
  RunAll([](nccl::Member* member, StagedCommunicator* staged) {
    EXPECT_EQ(staged->name(), "staged shm");
    nccl::CheckAllreduces(member);
    nccl::CheckPlaces(member);
    nccl::CheckFactors(member);
    nccl::CheckReducescatters(member);
  });
}

TEST_P(StagedCommunicatorTest, MovesRows) {
  RunAll([](nccl::Member* member, StagedCommunicator*) { nccl::CheckRows(member); });
}

TEST_P(StagedCommunicatorTest, KeepsTheOrder) {
  RunAll([](nccl::Member* member, StagedCommunicator*) { nccl::CheckOrder(member); });
}

TEST_P(StagedCommunicatorTest, HasAdasum) {
  RunAll([](nccl::Member* member, StagedCommunicator*) { nccl::CheckAdasum(member); });
}

// As one that has joined, and has no tensor to say on which device.
TEST_P(StagedCommunicatorTest, AddsZerosWithoutADevice) {
  RunAll([](nccl::Member* member, StagedCommunicator* staged) {
    const std::vector<char> own = nccl::Operand(DataType::kInt32, 5, 0, 0);
    if (member->own() > 0) {
      const collective::Collective zeros{collective::Allreduce{DataType::kInt32, {{nullptr, nullptr, 5}}},
                                         DeviceKind::kAccelerator};
      absl::Status status = absl::UnknownError("not told");
      staged->Start({1, 1, 0}, zeros, nullptr, [&status](const absl::Status& told) { status = told; });
      EXPECT_TRUE(status.ok()) << status;
      return;
    }
    cuda::FakeTensor tensor = member->Tensor(own);
    ASSERT_TRUE(member->Run(collective::Allreduce{DataType::kInt32, {{tensor.data(), tensor.data(), 5}}}).ok());
    EXPECT_EQ(tensor.Read(), own);
  });
}

TEST_P(StagedCommunicatorTest, AbortEndsItWithTheReason) {
  absl::Notification ended;
  RunAll([&ended](nccl::Member* member, StagedCommunicator* staged) {
    // The others live, and never come.
    if (member->own() > 0) return ended.WaitForNotification();
    cuda::FakeTensor tensor = member->Tensor(20);
    std::thread aborts([staged] { staged->Abort("rank 1 has died"); });
    const collective::Allreduce call{DataType::kInt32, {{tensor.data(), tensor.data(), 5}}};
    EXPECT_EQ(member->Run(call).message(), "rank 1 has died");
    aborts.join();
    EXPECT_EQ(member->Run(call).message(), "rank 1 has died") << "and what comes later";
    ended.Notify();
  });
}

INSTANTIATE_TEST_SUITE_P(Of, StagedCommunicatorTest, testing::Values(2, 3));

}  // namespace
}  // namespace farandole::worker::staging
