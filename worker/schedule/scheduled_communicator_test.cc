#include "worker/schedule/scheduled_communicator.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/row_collectives_testing.h"
#include "worker/schedule/scheduled_testing.h"

namespace farandole::worker::schedule {
namespace {

struct Shape {
  std::string transport;
  int ranks;
};

// Each schedule gets some operands.
ScheduledOptions SmallChunks() { return farandole::worker::schedule::SmallChunks("allreduce 0 2500 1 any doubling"); }

class ScheduledCommunicatorTest : public testing::TestWithParam<Shape> {
 protected:
  using Body = std::function<void(ScheduledCommunicator*, int rank)>;

  void RunRanks(int ranks, const ScheduledOptions& options, const Body& body) {
    RunScheduledRanks(ranks, GetParam().transport, options, body);
  }

  collective::Instance Next() { return {1, ++anchor_, 0}; }

  uint64_t anchor_ = 0;
};

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes;
  for (const char* transport : {"inproc", "tcp"}) {
    for (int ranks : {1, 2, 3, 4, 5}) shapes.push_back({transport, ranks});
  }
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Shapes, ScheduledCommunicatorTest, testing::ValuesIn(Shapes()),
                         [](const auto& info) { return info.param.transport + std::to_string(info.param.ranks); });

constexpr DataType kTypes[] = {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat32,
                               DataType::kFloat64, DataType::kInt32,    DataType::kInt64};

TEST_P(ScheduledCommunicatorTest, AllreducesEveryCellOfEveryType) {
  const int ranks = GetParam().ranks;
  RunRanks(ranks, SmallChunks(), [ranks](ScheduledCommunicator* communicator, int rank) {
    uint64_t anchor = 0;
    for (DataType dtype : kTypes) {
      for (int64_t count : {0, 1, 2, 3, 5, 97, 1000, 12345}) {
        std::vector<char> data(count * SizeOf(dtype) + 1);
        const int round = static_cast<int>(anchor % 4);
        collective::FillOperand(dtype, data.data(), count, rank, round);
        const arithmetic::Reduction how(dtype, collective::kOps[anchor % collective::kOps.size()]);
        const absl::Status status = communicator->Allreduce({1, ++anchor, 0}, how, data.data(), count);
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(collective::WrongCell(how, data.data(), count, ranks, round), -1)
            << Name(dtype) << " " << Name(how.op) << " " << count;
      }
    }
  });
}

TEST_P(ScheduledCommunicatorTest, ReducescattersUnevenParts) {
  RunRanks(GetParam().ranks, SmallChunks(),
           [](collective::BlockingCommunicator* communicator, int) { collective::CheckReducescatter(communicator); });
}

TEST_P(ScheduledCommunicatorTest, Factors) {
  RunRanks(GetParam().ranks, SmallChunks(),
           [](collective::BlockingCommunicator* communicator, int) { collective::CheckFactors(communicator); });
}

TEST_P(ScheduledCommunicatorTest, AlltoallOfDifferentSizes) {
  RunRanks(GetParam().ranks, SmallChunks(),
           [](collective::BlockingCommunicator* communicator, int) { collective::CheckAlltoall(communicator); });
}

TEST_P(ScheduledCommunicatorTest, LargeAllreduceWithTheUsualChunks) {
  const int ranks = GetParam().ranks;
  RunRanks(ranks, {}, [ranks](ScheduledCommunicator* communicator, int rank) {
    const int64_t count = (5 << 20) / 4 + 3;
    std::vector<char> data(count * 4);
    for (uint64_t round = 0; round < 3; ++round) {
      collective::FillOperand(DataType::kFloat32, data.data(), count, rank, static_cast<int>(round));
      const absl::Status status = communicator->Allreduce({1, 7, round}, DataType::kFloat32, data.data(), count);
      ASSERT_TRUE(status.ok()) << status;
      ASSERT_EQ(collective::WrongCell(DataType::kFloat32, data.data(), count, ranks, static_cast<int>(round)), -1);
    }
  });
}

TEST_P(ScheduledCommunicatorTest, AllRanksGetTheSameBits) {
  const int ranks = GetParam().ranks;
  for (int64_t count : {5001, 300}) {
    std::vector<std::vector<float>> results(ranks, std::vector<float>(count));
    RunRanks(ranks, SmallChunks(), [&results, count](ScheduledCommunicator* communicator, int rank) {
      // Sums whose rounding depends on the order, and not-a-numbers that tell who made them.
      for (int64_t i = 0; i < count; ++i) {
        results[rank][i] = 1.0f / static_cast<float>(1 + i % 977 + 31 * rank) * (i % 2 == 0 ? 1e6f : -1e-3f);
        if (i % 50 == 7) results[rank][i] = std::nanf(std::to_string(rank + 1).c_str());
      }
      ASSERT_TRUE(communicator->Allreduce({1, 1, 0}, DataType::kFloat32, results[rank].data(), count).ok());
    });
    for (int rank = 1; rank < ranks; ++rank) {
      EXPECT_EQ(std::memcmp(results[0].data(), results[rank].data(), count * sizeof(float)), 0) << rank;
    }
  }
}

TEST_P(ScheduledCommunicatorTest, AllgatherOfDifferentSizes) {
  const int ranks = GetParam().ranks;
  RunRanks(ranks, SmallChunks(), [ranks](ScheduledCommunicator* communicator, int rank) {
    uint64_t anchor = 0;
    for (int variant = 0; variant < 5; ++variant) {
      std::vector<int64_t> counts;
      std::string expected;
      int64_t own_offset = 0;
      for (int m = 0; m < ranks; ++m) {
        const int64_t usual = 1 + (m * 3337) % 5000;
        counts.push_back(variant == 0 ? 0 : variant == 1 && m % 2 == 0 ? 0 : variant == 2 && m > 0 ? 1 : usual);
        if (m == rank) own_offset = static_cast<int64_t>(expected.size());
        for (int64_t i = 0; i < counts[m]; ++i) expected.push_back(static_cast<char>(i * 7 + m * 31 + variant));
      }
      const std::string input = expected.substr(own_offset, counts[rank]);
      std::string output(expected.size(), '?');
      ASSERT_TRUE(communicator->Allgather({1, ++anchor, 0}, input.data(), &output[0], counts).ok());
      ASSERT_TRUE(output == expected) << variant;
      // In place: the input lies where the output wants it.
      std::string in_place(expected.size(), '?');
      in_place.replace(own_offset, counts[rank], input);
      ASSERT_TRUE(communicator->Allgather({1, ++anchor, 0}, &in_place[own_offset], &in_place[0], counts).ok());
      ASSERT_TRUE(in_place == expected) << variant;
    }
  });
}

TEST_P(ScheduledCommunicatorTest, BroadcastFromEveryRoot) {
  const int ranks = GetParam().ranks;
  RunRanks(ranks, SmallChunks(), [ranks](ScheduledCommunicator* communicator, int rank) {
    uint64_t anchor = 0;
    for (int root = 0; root < ranks; ++root) {
      for (int64_t bytes : {0, 1, 999, 12345}) {
        std::string expected;
        for (int64_t i = 0; i < bytes; ++i) expected.push_back(static_cast<char>(i * 13 + root));
        std::string data = rank == root ? expected : std::string(bytes, '?');
        ASSERT_TRUE(communicator->Broadcast({1, ++anchor, 0}, root, &data[0], bytes).ok());
        ASSERT_TRUE(data == expected) << root << " " << bytes;
      }
    }
  });
}

TEST_P(ScheduledCommunicatorTest, NobodyLeavesABarrierBeforeAllHaveEntered) {
  const int ranks = GetParam().ranks;
  std::atomic<int> entered{0};
  RunRanks(ranks, {}, [&entered, ranks](ScheduledCommunicator* communicator, int rank) {
    for (uint64_t round = 0; round < 50; ++round) {
      ++entered;
      ASSERT_TRUE(communicator->Barrier({1, round, 0}).ok());
      ASSERT_GE(entered, static_cast<int>(round + 1) * ranks);
    }
  });
}

// Over tcp only: inproc never has data under way.
class LeaverTest : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, LeaverTest, testing::Range(2, 6));

TEST_P(LeaverTest, ALeaverDoesNotDisturbWhoIsStillBusy) {
  // The root of a broadcast is done as soon as its data is under way; it goes at once.
  const int ranks = GetParam();
  std::atomic<bool> root_gone{false};
  collective::LocalBootstrap bootstrap;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      transport::tcp::TcpTransport transport;
      collective::Group group = collective::TestGroup(ranks, rank);
      group.data_key = "key";
      auto communicator = ScheduledCommunicator::Create(group, &transport, &bootstrap);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      ASSERT_TRUE((*communicator)->Barrier({1, 1, 0}).ok());
      std::string data(5000, rank == 0 ? 'x' : '?');
      while (rank != 0 && !root_gone) std::this_thread::yield();
      const absl::Status status = (*communicator)->Broadcast({1, 2, 0}, 0, &data[0], data.size());
      EXPECT_TRUE(status.ok()) << status;
      EXPECT_EQ(data, std::string(5000, 'x'));
      communicator->reset();
      if (rank == 0) root_gone = true;
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace farandole::worker::schedule
