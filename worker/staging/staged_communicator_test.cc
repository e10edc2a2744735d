#include "worker/staging/staged_communicator.h"

#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "transport/inproc/transport.h"
#include "worker/collective/blocking_adapter.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/nccl/device_collectives_testing.h"
#include "worker/schedule/scheduled_communicator.h"
#include "worker/shm/shm_communicator.h"

namespace farandole::worker::staging {
namespace {

struct Case {
  int ranks;
  int64_t chunk_bytes;
};

template <typename T>
std::vector<char> Bytes(const std::vector<T>& values) {
  std::vector<char> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

std::vector<int32_t> Filled(size_t count, int32_t value) { return std::vector<int32_t>(count, value); }

// Numbers whose sum depends on the order.
std::vector<float> Randoms(int rank, size_t round, size_t count) {
  std::mt19937 random(static_cast<unsigned>(rank * 100 + round));
  std::uniform_real_distribution<float> draw(-1, 1);
  std::vector<float> values(count);
  for (float& value : values) value = draw(random);
  return values;
}

class StagedCommunicatorTest : public testing::TestWithParam<Case> {
 protected:
  // Runs `check` as each member, in threads. They share one device, which this medium is for.
  template <typename Check>
  void RunAll(const Check& check) {
    const int ranks = GetParam().ranks;
    cuda::FakeGpus gpus(1);
    collective::LocalBootstrap bootstrap;
    std::vector<std::thread> members;
    for (int position = 0; position < ranks; ++position) {
      members.emplace_back([&, position] {
        auto shm = shm::ShmCommunicator::Create(collective::TestGroup(ranks, position), &bootstrap, {});
        ASSERT_TRUE(shm.ok()) << shm.status();
        StagedCommunicator staged(std::make_unique<collective::BlockingAdapter>(*std::move(shm)), 60000,
                                  GetParam().chunk_bytes);
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
    const std::vector<char> own = nccl::Operand(DataType::kInt32, 1000, 0, 0);
    if (member->own() > 0) {
      const collective::Collective zeros{collective::Allreduce{DataType::kInt32, {{nullptr, nullptr, 1000}}},
                                         DeviceKind::kAccelerator};
      absl::Status status = absl::UnknownError("not told");
      staged->Start({1, 1, 0}, zeros, nullptr, [&status](const absl::Status& told) { status = told; });
      EXPECT_TRUE(status.ok()) << status;
      return;
    }
    cuda::FakeTensor tensor = member->Tensor(own);
    ASSERT_TRUE(member->Run(collective::Allreduce{DataType::kInt32, {{tensor.data(), tensor.data(), 1000}}}).ok());
    EXPECT_EQ(tensor.Read(), own);
  });
}

// Member 0 has joined for one of them, and is on a device with the others.
TEST_P(StagedCommunicatorTest, AddsZerosForSomePieces) {
  RunAll([](nccl::Member* member, StagedCommunicator*) {
    cuda::FakeTensor first = member->Tensor(Bytes(Filled(90, 1)));
    cuda::FakeTensor second = member->Tensor(Bytes(Filled(77, 1)));
    cuda::FakeTensor third = member->Tensor(Bytes(Filled(50, 1)));
    collective::Allreduce call{
        DataType::kInt32,
        {{first.data(), first.data(), 90}, {second.data(), second.data(), 77}, {third.data(), third.data(), 50}}};
    if (member->own() == 0) call.pieces[1] = {nullptr, nullptr, 77};
    ASSERT_TRUE(member->Run(std::move(call)).ok());
    EXPECT_EQ(first.Read(), Bytes(Filled(90, member->ranks())));
    EXPECT_EQ(second.Read(), Bytes(Filled(77, member->own() == 0 ? 1 : member->ranks() - 1)));
    EXPECT_EQ(third.Read(), Bytes(Filled(50, member->ranks())));
  });
}

// Shared memory combines in the order of position, wherever something is cut.
TEST_P(StagedCommunicatorTest, RoundsAsTheWholeWould) {
  RunAll([](nccl::Member* member, StagedCommunicator*) {
    for (const std::vector<size_t>& counts : {std::vector<size_t>{1}, {25}, {4001}, {3, 0, 500, 24, 26, 1}}) {
      collective::Allreduce call{DataType::kFloat32, {}};
      std::vector<cuda::FakeTensor> tensors;
      for (size_t k = 0; k < counts.size(); ++k) {
        tensors.push_back(member->Tensor(Bytes(Randoms(member->own(), k, counts[k]))));
        call.pieces.push_back({tensors[k].data(), tensors[k].data(), static_cast<int64_t>(counts[k])});
      }
      ASSERT_TRUE(member->Run(std::move(call)).ok());
      for (size_t k = 0; k < counts.size(); ++k) {
        std::vector<float> expected = Randoms(0, k, counts[k]);
        for (int m = 1; m < member->ranks(); ++m) {
          const std::vector<float> operand = Randoms(m, k, counts[k]);
          for (size_t i = 0; i < operand.size(); ++i) expected[i] += operand[i];
        }
        EXPECT_EQ(tensors[k].Read(), Bytes(expected)) << "tensor " << k << " of " << counts.size();
      }
    }
  });
}

TEST_P(StagedCommunicatorTest, FactorsStayWithTheirPieces) {
  RunAll([](nccl::Member* member, StagedCommunicator*) {
    const size_t counts[] = {40, 0, 333, 10};
    const collective::Scale scales[] = {{ReduceOp::kAverage}, {}, {ReduceOp::kSum, 3, 1}, {ReduceOp::kSum, 1, 2}};
    const int sum = member->ranks() * (member->ranks() + 1) / 2;
    const int expected[] = {6 * sum / member->ranks(), 0, 6 * sum * 3, 6 * sum * 2};
    collective::Allreduce call{DataType::kInt32, {}};
    std::vector<cuda::FakeTensor> tensors;
    for (int k = 0; k < 4; ++k) {
      tensors.push_back(member->Tensor(Bytes(Filled(counts[k], 6 * (member->own() + 1)))));
      call.pieces.push_back({tensors[k].data(), tensors[k].data(), static_cast<int64_t>(counts[k])});
      call.scales.push_back(scales[k]);
    }
    ASSERT_TRUE(member->Run(std::move(call)).ok());
    for (int k = 0; k < 4; ++k) EXPECT_EQ(tensors[k].Read(), Bytes(Filled(counts[k], expected[k]))) << k;
  });
}

TEST_P(StagedCommunicatorTest, BroadcastsOfAllSizes) {
  RunAll([](nccl::Member* member, StagedCommunicator*) {
    for (const size_t count : {0, 1, 25, 26, 1000, 4321}) {
      const int root = static_cast<int>(count) % member->ranks();
      cuda::FakeTensor tensor = member->Tensor(Bytes(Randoms(member->own(), 0, count)));
      const collective::Broadcast call{root, member->own() == root ? tensor.data() : nullptr, tensor.data(),
                                       static_cast<int64_t>(count * sizeof(float))};
      ASSERT_TRUE(member->Run(call).ok());
      EXPECT_EQ(tensor.Read(), Bytes(Randoms(root, 0, count))) << count;
    }
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

INSTANTIATE_TEST_SUITE_P(Of, StagedCommunicatorTest,
                         testing::Values(Case{2, StagedCommunicator::kChunkBytes}, Case{3, 100}, Case{2, 1000}),
                         [](const auto& tested) {
                           return std::to_string(tested.param.ranks) + "InChunksOf" +
                                  std::to_string(tested.param.chunk_bytes);
                         });

// Of the size that is used, over channels, where a chunk takes several parts of an instance.
TEST(StagedOverChannelsTest, LargeAllreducesFollowEachOther) {
  constexpr size_t kCount = (9 << 20) / sizeof(float) + 5;
  cuda::FakeGpus gpus(1);
  collective::LocalBootstrap bootstrap;
  std::vector<std::thread> members;
  for (int position = 0; position < 2; ++position) {
    members.emplace_back([&, position] {
      transport::inproc::InprocTransport transport;
      collective::Group group = collective::TestGroup(2, position);
      group.data_key = "key";
      auto scheduled = schedule::ScheduledCommunicator::Create(group, &transport, &bootstrap);
      ASSERT_TRUE(scheduled.ok()) << scheduled.status();
      StagedCommunicator staged(std::make_unique<collective::BlockingAdapter>(*std::move(scheduled)), 60000);
      nccl::Member member(&staged, gpus.device(0));
      cuda::FakeTensor tensor = member.Tensor(Bytes(Randoms(position, 0, kCount)));
      std::vector<float> expected = Randoms(0, 0, kCount);
      const std::vector<float> other = Randoms(1, 0, kCount);
      for (size_t i = 0; i < kCount; ++i) expected[i] = 2 * (expected[i] + other[i]);
      for (int i = 0; i < 2; ++i) {
        ASSERT_TRUE(
            member.Run(collective::Allreduce{DataType::kFloat32, {{tensor.data(), tensor.data(), kCount}}}).ok());
      }
      EXPECT_TRUE(tensor.Read() == Bytes(expected));
    });
  }
  for (std::thread& member : members) member.join();
}

}  // namespace
}  // namespace farandole::worker::staging
