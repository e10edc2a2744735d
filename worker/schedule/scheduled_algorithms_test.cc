// Every schedule that the table can name, with and without a channel between every two members.
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "transport/inproc/transport.h"
#include "worker/arithmetic/ordered_reduce.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/collective/row_collectives_testing.h"
#include "worker/schedule/scheduled_testing.h"

namespace farandole::worker::schedule {
namespace {

using Body = std::function<void(ScheduledCommunicator*, int rank)>;

void RunRanks(int ranks, const ScheduledOptions& options, const Body& body) {
  RunScheduledRanks(ranks, "tcp", options, body);
}

struct Shape {
  std::string schedule;
  int ranks;
  bool mesh;
};

class AllreduceScheduleTest : public testing::TestWithParam<Shape> {
 protected:
  ScheduledOptions Options() const {
    ScheduledOptions options = SmallChunks("allreduce 0 any 1 any " + GetParam().schedule);
    if (!GetParam().mesh) options.mesh_members_max = 1;
    return options;
  }
};

std::vector<Shape> Shapes(bool mesh) {
  // Without a mesh the first is passed over.
  if (!mesh) return {{"direct", 6, false}, {"halving", 6, false}};
  std::vector<Shape> shapes;
  for (const char* schedule : {"exchange", "direct", "doubling", "halving", "ring"}) {
    for (int ranks : {1, 2, 3, 4, 7}) shapes.push_back({schedule, ranks, true});
  }
  return shapes;
}

std::string NameOf(const testing::TestParamInfo<Shape>& info) {
  return info.param.schedule + std::to_string(info.param.ranks);
}

INSTANTIATE_TEST_SUITE_P(Mesh, AllreduceScheduleTest, testing::ValuesIn(Shapes(true)), NameOf);
INSTANTIATE_TEST_SUITE_P(Sparse, AllreduceScheduleTest, testing::ValuesIn(Shapes(false)), NameOf);

TEST_P(AllreduceScheduleTest, AllreducesEveryCell) {
  const int ranks = GetParam().ranks;
  RunRanks(ranks, Options(), [ranks](ScheduledCommunicator* communicator, int rank) {
    uint64_t anchor = 0;
    for (DataType dtype : {DataType::kFloat16, DataType::kFloat32, DataType::kInt64, DataType::kUint8}) {
      for (int64_t count : {0, 1, 2, 3, 5, 97, 1000, 12345}) {
        std::vector<char> data(count * SizeOf(dtype) + 1);
        const int round = static_cast<int>(anchor % 4);
        collective::FillOperand(dtype, data.data(), count, rank, round);
        const arithmetic::Reduction how(dtype, collective::kOps[anchor % collective::kOps.size()]);
        const absl::Status status = communicator->Allreduce({1, ++anchor, 0}, how, data.data(), count);
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(collective::WrongCell(how, data.data(), count, ranks, round), -1) << Name(dtype) << " " << count;
      }
    }
  });
}

TEST_P(AllreduceScheduleTest, AppliesFactors) {
  RunRanks(GetParam().ranks, Options(),
           [](collective::BlockingCommunicator* communicator, int) { collective::CheckFactors(communicator); });
}

// Operands whose sum depends on the order, and on how often it is rounded.
void FillRough(const arithmetic::Reduction& how, char* data, int64_t count, int rank) {
  std::mt19937 random(rank + 1);
  std::uniform_real_distribution<float> mantissa(-1, 1);
  for (int64_t i = 0; i < count; ++i) {
    const float value = std::ldexp(mantissa(random), static_cast<int>(random() % 12));
    if (how.dtype == DataType::kFloat32) std::memcpy(data + i * 4, &value, 4);
    const uint16_t half =
        how.dtype == DataType::kFloat16 ? arithmetic::Float16FromFloat(value) : arithmetic::Bfloat16FromFloat(value);
    if (how.dtype != DataType::kFloat32) std::memcpy(data + i * 2, &half, 2);
  }
}

// What every reduction in order of position gives, bit for bit.
std::vector<char> InOrder(const arithmetic::Reduction& how, int64_t count, int ranks) {
  const int64_t bytes = count * SizeOf(how.dtype);
  std::vector<std::vector<char>> operands(ranks, std::vector<char>(bytes));
  std::vector<const char*> sources;
  for (int rank = 0; rank < ranks; ++rank) {
    FillRough(how, operands[rank].data(), count, rank);
    sources.push_back(operands[rank].data());
  }
  std::vector<char> expected(bytes);
  arithmetic::OrderedReduce(how, sources, expected.data(), count);
  return expected;
}

// With a mesh. A group without one has no order; it rounds once all the same, which integers show.
class BitsTest : public AllreduceScheduleTest {};
INSTANTIATE_TEST_SUITE_P(Shapes, BitsTest, testing::ValuesIn(Shapes(true)), NameOf);

TEST_P(BitsTest, HalvesAndWhatIsDirectHaveTheBitsOfAReductionInOrder) {
  const int ranks = GetParam().ranks;
  const bool in_order = GetParam().schedule == "exchange" || GetParam().schedule == "direct";
  for (const arithmetic::Reduction& how :
       {arithmetic::Reduction(DataType::kFloat16),
        arithmetic::Reduction(DataType::kBfloat16, ReduceOp::kSum, 1.0 / 3, 7, 0.25),
        arithmetic::Reduction(DataType::kFloat32, ReduceOp::kSum, 0.3, 7, 1.0 / 3)}) {
    if (!arithmetic::IsHalf(how.dtype) && !in_order) continue;
    for (const int64_t count : {1, 700, 9001}) {
      const std::vector<char> expected = InOrder(how, count, ranks);
      RunRanks(ranks, Options(), [&](ScheduledCommunicator* communicator, int rank) {
        std::vector<char> data(expected.size());
        FillRough(how, data.data(), count, rank);
        ASSERT_TRUE(communicator->Allreduce({1, 1, 0}, how, data.data(), count).ok());
        ASSERT_EQ(std::memcmp(data.data(), expected.data(), data.size()), 0) << Name(how.dtype) << " " << count;
        // The whole with one member, so that the rest have nothing.
        std::vector<int64_t> counts(ranks, 0);
        counts[ranks - 1] = count;
        FillRough(how, data.data(), count, rank);
        std::vector<char> own(expected.size());
        ASSERT_TRUE(communicator->Reducescatter({1, 2, 0}, how, data.data(), own.data(), counts).ok());
        if (rank < ranks - 1) return;
        ASSERT_EQ(own, expected) << Name(how.dtype) << " " << count;
      });
    }
  }
}

TEST(RowScheduleTest, ReducescatterAllgatherAndAlltoallByEverySchedule) {
  for (const char* schedule : {"direct", "ring"}) {
    for (const int mesh_members_max : {64, 2}) {
      for (const int ranks : {2, 3, 5}) {
        const std::string rows = std::string(" 0 any 1 any ") + schedule;
        ScheduledOptions options = SmallChunks("reducescatter" + rows + "\nallgather" + rows);
        options.mesh_members_max = mesh_members_max;
        RunRanks(ranks, options, [](collective::BlockingCommunicator* communicator, int) {
          collective::CheckReducescatter(communicator);
        });
        RunRanks(ranks, options,
                 [](collective::BlockingCommunicator* communicator, int) { collective::CheckAlltoall(communicator); });
        RunRanks(ranks, options,
                 [](collective::BlockingCommunicator* communicator, int) { collective::CheckFactors(communicator); });
        RunRanks(ranks, options, [ranks](collective::BlockingCommunicator* communicator, int rank) {
          std::vector<int64_t> counts;
          std::string expected;
          for (int m = 0; m < ranks; ++m) {
            counts.push_back(m * 3337 % 5000);
            expected += std::string(counts.back(), static_cast<char>('a' + m));
          }
          const std::string input(counts[rank], static_cast<char>('a' + rank));
          std::string output(expected.size(), '?');
          ASSERT_TRUE(communicator->Allgather({1, 1, 0}, input.data(), &output[0], counts).ok());
          ASSERT_EQ(output, expected);
        });
      }
    }
  }
}

TEST(ConnectionsTest, SeveralToEachPeerCarryLargeBlocksTogetherAlsoEncrypted) {
  ScheduledOptions options;
  options.connections = 3;
  for (const int ranks : {2, 4}) {
    options.encrypted = ranks == 4;
    RunRanks(ranks, options, [ranks](ScheduledCommunicator* communicator, int rank) {
      uint64_t anchor = 0;
      for (const int64_t count : {1, 16 << 10, 70001, (3 << 20) + 1}) {
        std::vector<char> data(count * 4);
        collective::FillOperand(DataType::kFloat32, data.data(), count, rank, 0);
        ASSERT_TRUE(communicator->Allreduce({1, ++anchor, 0}, DataType::kFloat32, data.data(), count).ok());
        ASSERT_EQ(collective::WrongCell(DataType::kFloat32, data.data(), count, ranks, 0), -1) << count;
      }
    });
  }
}

TEST(ScheduleTermsTest, MembersWithDifferentTablesSayWhoHasWhat) {
  collective::LocalBootstrap bootstrap;
  std::vector<absl::Status> statuses(2);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      transport::inproc::InprocTransport transport;
      collective::Group group = collective::TestGroup(2, rank);
      group.data_key = "key";
      const ScheduledOptions options = SmallChunks(rank == 0 ? "" : "allreduce 0 any 1 any halving");
      statuses[rank] = ScheduledCommunicator::Create(group, &transport, &bootstrap, options).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : statuses) {
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
    for (const char* table : {"", "allreduce 0 any 1 any halving"}) {
      EXPECT_NE(status.message().find(SmallChunks(table).table.Fingerprint()), std::string::npos) << status;
    }
    for (const char* who : {"rank 0", "rank 1"}) EXPECT_NE(status.message().find(who), std::string::npos) << status;
  }
}

}  // namespace
}  // namespace farandole::worker::schedule
