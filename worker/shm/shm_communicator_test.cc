#include "worker/shm/shm_communicator.h"

#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <thread>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/collective/row_collectives_testing.h"

namespace farandole::worker::shm {
namespace {

using Body = std::function<void(ShmCommunicator& communicator, int rank)>;

// Small sizes reach every path quickly.
ShmOptions SmallOptions() {
  ShmOptions options;
  options.buffer_bytes = 64 << 10;
  options.chunk_bytes = 8 << 10;
  return options;
}

// Runs `body` as each of `ranks` ranks, threads of this process with a mapping each.
void RunRanks(int ranks, const ShmOptions& options, const Body& body, uint32_t op_timeout_ms = 60000) {
  collective::LocalBootstrap bootstrap;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      collective::Group group = collective::TestGroup(ranks, rank);
      group.op_timeout_ms = op_timeout_ms;
      auto communicator = ShmCommunicator::Create(group, &bootstrap, options);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      body(**communicator, rank);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

collective::Instance At(uint64_t anchor) { return collective::Instance{1, anchor, 0}; }

constexpr DataType kTypes[] = {DataType::kUint8,   DataType::kInt8,    DataType::kInt32,   DataType::kInt64,
                               DataType::kFloat16, DataType::kFloat32, DataType::kFloat64, DataType::kBfloat16};

// An operand of a test: in the communicator's buffer or in memory of its own.
class Operand {
 public:
  Operand(ShmCommunicator& communicator, int64_t bytes, bool in_buffer, int64_t offset = 0) : own_(bytes + offset) {
    char* base = in_buffer ? static_cast<char*>(communicator.Buffer(bytes + offset)) : nullptr;
    data_ = (base != nullptr ? base : own_.data()) + offset;
  }
  char* data() const { return data_; }

 private:
  std::vector<char> own_;
  char* data_;
};

// Ranks, CPUs that they are told to have.
class ShmCommunicatorTest : public testing::TestWithParam<std::tuple<int, double>> {
 protected:
  int ranks() const { return std::get<0>(GetParam()); }
  ShmOptions Options() const {
    ShmOptions options = SmallOptions();
    options.cpus = std::get<1>(GetParam());
    return options;
  }
};

TEST_P(ShmCommunicatorTest, AllreducesEveryCellOfEveryTypeAndSize) {
  RunRanks(ranks(), Options(), [&](ShmCommunicator& communicator, int rank) {
    int round = 0;
    for (DataType dtype : kTypes) {
      for (int64_t count : {0, 1, 3, 57, 60, 61, 120, 479, 481, 1023, 4097, 12289, 20001}) {
        for (bool in_buffer : {true, false}) {
          const arithmetic::Reduction how(dtype, collective::kOps[++round % collective::kOps.size()]);
          const Operand operand(communicator, count * SizeOf(dtype), in_buffer);
          collective::FillOperand(dtype, operand.data(), count, rank, round);
          const absl::Status s = communicator.Allreduce(At(round), how, operand.data(), count);
          ASSERT_TRUE(s.ok()) << s;
          ASSERT_EQ(collective::WrongCell(how, operand.data(), count, ranks(), round), -1)
              << Name(dtype) << " " << Name(how.op) << " " << count << " in buffer " << in_buffer;
        }
      }
    }
  });
}

TEST_P(ShmCommunicatorTest, ReducescattersUnevenParts) {
  RunRanks(ranks(), Options(),
           [](ShmCommunicator& communicator, int) { collective::CheckReducescatter(&communicator); });
}

TEST_P(ShmCommunicatorTest, Factors) {
  RunRanks(ranks(), Options(), [](ShmCommunicator& communicator, int) { collective::CheckFactors(&communicator); });
}

TEST_P(ShmCommunicatorTest, AlltoallOfDifferentSizes) {
  RunRanks(ranks(), Options(), [](ShmCommunicator& communicator, int) { collective::CheckAlltoall(&communicator); });
}

TEST_P(ShmCommunicatorTest, OperandsMayLieInDifferentPlaces) {
  RunRanks(ranks(), Options(), [&](ShmCommunicator& communicator, int rank) {
    for (int round = 1; round <= 40; ++round) {
      const int64_t count = 1500 + round;
      const bool in_buffer = round % 4 == 0 || (rank + round) % 2 == 0;
      const int64_t offset = round % 4 == 0 ? 64 * ((rank + round) % 3) : 4;
      const Operand operand(communicator, count * 4, in_buffer, offset);
      collective::FillOperand(DataType::kFloat32, operand.data(), count, rank, round);
      const absl::Status s = communicator.Allreduce(At(round), DataType::kFloat32, operand.data(), count);
      ASSERT_TRUE(s.ok()) << s;
      ASSERT_EQ(collective::WrongCell(DataType::kFloat32, operand.data(), count, ranks(), round), -1);
    }
  });
}

TEST_P(ShmCommunicatorTest, AllRanksGetTheSameBitsEveryTimeAndEverywhere) {
  for (int64_t count : {100, 900, 9000}) {
    std::vector<std::vector<float>> results(ranks() * 3);
    RunRanks(ranks(), Options(), [&](ShmCommunicator& communicator, int rank) {
      for (int run = 0; run < 3; ++run) {
        const Operand operand(communicator, count * 4, run == 1);
        float* values = reinterpret_cast<float*>(operand.data());
        std::mt19937 random(rank);
        for (int64_t i = 0; i < count; ++i) values[i] = std::ldexp(static_cast<float>(random()), random() % 40);
        const absl::Status s = communicator.Allreduce(At(run), DataType::kFloat32, values, count);
        ASSERT_TRUE(s.ok()) << s;
        results[rank * 3 + run].assign(values, values + count);
      }
    });
    for (const auto& result : results) EXPECT_EQ(result, results[0]);
  }
}

TEST_P(ShmCommunicatorTest, AllgatherOfDifferentSizes) {
  RunRanks(ranks(), Options(), [&](ShmCommunicator& communicator, int rank) {
    int round = 0;
    for (int64_t unit : {0, 1, 90, 700, 5000, 30000}) {
      for (int style = 0; style < 4; ++style) {
        ++round;
        std::vector<int64_t> counts(ranks());
        for (int r = 0; r < ranks(); ++r) counts[r] = (r + round) % 3 == 0 ? 0 : unit * (r % 4 + 1) + r % 2;
        const int64_t before = std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
        const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
        // Private, in the buffer, at its own place in a private output, mixed.
        const bool in_buffer = style == 1 || (style == 3 && rank % 2 == 0);
        const Operand input(communicator, counts[rank], in_buffer);
        std::vector<char> output(total + 1, 'x');
        char* const in = style == 2 ? output.data() + before : input.data();
        collective::FillOperand(DataType::kUint8, in, counts[rank], rank, round);
        const absl::Status s = communicator.Allgather(At(round), in, output.data(), counts);
        ASSERT_TRUE(s.ok()) << s;
        const char* at = output.data();
        for (int r = 0; r < ranks(); ++r) {
          for (int64_t i = 0; i < counts[r]; ++i)
            ASSERT_EQ(*at++, collective::FormulaCell(r, i, round)) << "of " << r << " " << i;
        }
        ASSERT_EQ(*at, 'x');
      }
    }
  });
}

// In the buffers of all, in none, or in some.
TEST_P(ShmCommunicatorTest, AllgatherPassesOnWhatAllHave) {
  RunRanks(ranks(), Options(), [&](ShmCommunicator& communicator, int rank) {
    int round = 0;
    for (int64_t unit : {0, 1, 90, 700, 5000, 30000}) {
      for (int style = 0; style < 3; ++style) {
        ++round;
        std::vector<int64_t> counts(ranks());
        for (int r = 0; r < ranks(); ++r) counts[r] = (r + round) % 3 == 0 ? 0 : unit * (r % 4 + 1) + r % 2;
        const int64_t before = std::accumulate(counts.begin(), counts.begin() + rank, int64_t{0});
        const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
        const Operand data(communicator, total, style == 0 || (style == 2 && rank % 2 == 0));
        collective::FillOperand(DataType::kUint8, data.data() + before, counts[rank], rank, round);
        std::vector<char> taken;
        const absl::Status s = communicator.AllgatherTo(
            At(round), data.data(), counts,
            [&](const char* from, int64_t bytes) { taken.insert(taken.end(), from, from + bytes); });
        ASSERT_TRUE(s.ok()) << s;
        ASSERT_EQ(taken.size(), total);
        const char* at = taken.data();
        for (int r = 0; r < ranks(); ++r) {
          for (int64_t i = 0; i < counts[r]; ++i)
            ASSERT_EQ(*at++, collective::FormulaCell(r, i, round)) << "of " << r << " " << i;
        }
      }
    }
  });
}

TEST_P(ShmCommunicatorTest, BroadcastFromEveryRoot) {
  RunRanks(ranks(), Options(), [&](ShmCommunicator& communicator, int rank) {
    int round = 0;
    for (int root = 0; root < ranks(); ++root) {
      for (int64_t bytes : {0, 1, 32, 33, 448, 2048, 2049, 8192, 8193, 50000, 100000}) {
        for (bool in_buffer : {true, false}) {
          ++round;
          const Operand operand(communicator, bytes, in_buffer && (rank == root || rank % 2 == 0));
          collective::FillOperand(DataType::kUint8, operand.data(), bytes, rank, round);
          const absl::Status s = communicator.Broadcast(At(round), root, operand.data(), bytes);
          ASSERT_TRUE(s.ok()) << s;
          for (int64_t i = 0; i < bytes; ++i)
            ASSERT_EQ(operand.data()[i], collective::FormulaCell(root, i, round)) << i;
        }
      }
    }
  });
}

TEST_P(ShmCommunicatorTest, NobodyLeavesABarrierBeforeTheLastArrives) {
  std::atomic<int> arrived{0};
  RunRanks(ranks(), Options(), [&](ShmCommunicator& communicator, int rank) {
    for (int round = 1; round <= 200; ++round) {
      arrived.fetch_add(1);
      ASSERT_TRUE(communicator.Barrier(At(2 * round)).ok());
      ASSERT_EQ(arrived.load(), round * ranks());
      ASSERT_TRUE(communicator.Barrier(At(2 * round + 1)).ok());
    }
  });
}

// One random history, the same on all ranks, against the formulas.
TEST_P(ShmCommunicatorTest, RandomHistory) {
  RunRanks(ranks(), Options(), [&](ShmCommunicator& communicator, int rank) {
    std::mt19937_64 shared(11), own(rank);
    for (int round = 1; round <= 300; ++round) {
      const int64_t exponent = shared() % 16, count = shared() % (int64_t{1} << exponent) + 1;
      const bool in_buffer = shared() % 3 == 0 ? own() % 2 == 0 : shared() % 2 == 0;
      const int kind = shared() % 4;
      if (kind == 0) {
        ASSERT_TRUE(communicator.Barrier(At(round)).ok());
      } else if (kind == 1) {
        const int root = shared() % ranks();
        const Operand operand(communicator, count, in_buffer);
        collective::FillOperand(DataType::kInt8, operand.data(), count, rank, round);
        ASSERT_TRUE(communicator.Broadcast(At(round), root, operand.data(), count).ok());
        for (int64_t i = 0; i < count; ++i) ASSERT_EQ(operand.data()[i], collective::FormulaCell(root, i, round));
      } else if (kind == 2) {
        std::vector<int64_t> counts(ranks());
        for (int64_t& c : counts) c = shared() % (count + 1);
        const Operand input(communicator, counts[rank], in_buffer);
        collective::FillOperand(DataType::kInt8, input.data(), counts[rank], rank, round);
        std::vector<char> output(std::accumulate(counts.begin(), counts.end(), int64_t{0}));
        ASSERT_TRUE(communicator.Allgather(At(round), input.data(), output.data(), counts).ok());
        const char* at = output.data();
        for (int r = 0; r < ranks(); ++r) {
          for (int64_t i = 0; i < counts[r]; ++i) ASSERT_EQ(*at++, collective::FormulaCell(r, i, round));
        }
      } else {
        const DataType dtype = kTypes[shared() % 8];
        const Operand operand(communicator, count * SizeOf(dtype), in_buffer);
        collective::FillOperand(dtype, operand.data(), count, rank, round);
        ASSERT_TRUE(communicator.Allreduce(At(round), dtype, operand.data(), count).ok());
        ASSERT_EQ(collective::WrongCell(dtype, operand.data(), count, ranks(), round), -1) << "round " << round;
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Worlds, ShmCommunicatorTest,
                         testing::Values(std::tuple(1, 2.0), std::tuple(2, 2.0), std::tuple(2, 1.0), std::tuple(3, 2.0),
                                         std::tuple(4, 2.0), std::tuple(4, 8.0), std::tuple(8, 2.0),
                                         std::tuple(16, 2.0)),
                         [](const auto& info) {
                           return "Ranks" + std::to_string(std::get<0>(info.param)) + "Cpus" +
                                  std::to_string(static_cast<int>(std::get<1>(info.param)));
                         });

TEST(ShmCommunicatorTest, BufferIsAlignedAndBounded) {
  RunRanks(2, SmallOptions(), [](ShmCommunicator& communicator, int rank) {
    EXPECT_EQ(reinterpret_cast<uintptr_t>(communicator.Buffer(1)) % 64, 0u);
    EXPECT_NE(communicator.Buffer(64 << 10), nullptr);
    EXPECT_EQ(communicator.Buffer((64 << 10) + 1), nullptr);
    EXPECT_EQ(communicator.name(), "shm");
    EXPECT_EQ(communicator.position(), rank);
    EXPECT_EQ(communicator.size(), 2);
  });
}

TEST(ShmCommunicatorTest, BuffersTogetherStayUnderTheirBound) {
  ShmOptions options = SmallOptions();
  options.buffers_total_bytes = 100000;
  RunRanks(2, options, [](ShmCommunicator& communicator, int rank) {
    EXPECT_NE(communicator.Buffer(49984), nullptr);
    EXPECT_EQ(communicator.Buffer(50001), nullptr);
  });
}

TEST(ShmCommunicatorTest, AdasumIsNoCombination) {
  RunRanks(2, SmallOptions(), [](ShmCommunicator& communicator, int rank) {
    float value = 1;
    const arithmetic::Reduction adasum{DataType::kFloat32, ReduceOp::kAdasum};
    EXPECT_EQ(communicator.Allreduce(At(1), adasum, &value, 1).code(), absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(communicator.Barrier(At(2)).ok());
  });
}

}  // namespace
}  // namespace farandole::worker::shm
