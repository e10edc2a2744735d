#include "worker/hier/hierarchical_communicator.h"

#include <atomic>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "transport/inproc/transport.h"
#include "transport/transport.h"
#include "worker/collective/row_collectives_testing.h"
#include "worker/hier/fake_hosts_testing.h"

namespace farandole::worker::hier {
namespace {

struct World {
  std::string name;
  std::vector<int> hosts;  // of each position
  std::string transport = "inproc";
  int ranks() const { return static_cast<int>(hosts.size()); }
};

class HierarchicalCommunicatorTest : public testing::TestWithParam<World> {
 protected:
  int ranks() const { return GetParam().ranks(); }
  void Run(const std::function<void(HierarchicalCommunicator*, int)>& body) {
    RunOnHosts(GetParam().hosts, GetParam().transport, SmallHierarchicalOptions(), body);
  }
};

INSTANTIATE_TEST_SUITE_P(Worlds, HierarchicalCommunicatorTest,
                         testing::Values(World{"OneHost", {0, 0, 0}}, World{"HostsOfOne", {0, 1, 2}},
                                         World{"Even", {0, 0, 1, 1}}, World{"EvenOverTcp", {0, 0, 1, 1}, "tcp"},
                                         World{"EvenInTurns", {0, 1, 2, 2, 1, 0}}, World{"Uneven", {0, 0, 0, 1, 1}},
                                         World{"UnevenOverTcp", {0, 0, 1}, "tcp"},
                                         World{"UnevenInTurns", {5, 3, 5, 4, 3, 5}}),
                         [](const auto& info) { return info.param.name; });

constexpr DataType kTypes[] = {DataType::kUint8,   DataType::kInt32,   DataType::kInt64,   DataType::kFloat16,
                               DataType::kFloat32, DataType::kFloat64, DataType::kBfloat16};

TEST_P(HierarchicalCommunicatorTest, AllreducesEveryCellOfEveryTypeAndSize) {
  Run([&](HierarchicalCommunicator* communicator, int position) {
    int round = 0;
    for (DataType dtype : kTypes) {
      for (int64_t count : {0, 1, 3, 130, 1000, 5001, 12345}) {
        for (bool in_buffer : {true, false}) {
          const arithmetic::Reduction how(dtype, collective::kOps[++round % collective::kOps.size()]);
          std::vector<char> memory;
          char* const data = collective::PlaceFor(count * SizeOf(dtype), in_buffer, communicator, &memory);
          collective::FillOperand(dtype, data, count, position, round);
          const collective::Instance instance{1, static_cast<uint64_t>(round), 0};
          const absl::Status s = communicator->Allreduce(instance, how, data, count);
          ASSERT_TRUE(s.ok()) << s;
          ASSERT_EQ(collective::WrongCell(how, data, count, ranks(), round), -1)
              << Name(dtype) << " " << Name(how.op) << " " << count << " in buffer " << in_buffer;
        }
      }
    }
  });
}

// As many as a batch has, on their way in one part or many, which end anywhere in them.
TEST_P(HierarchicalCommunicatorTest, AllreducesTensorsOfEveryTypeWhereTheyLie) {
  Run([&](HierarchicalCommunicator* communicator, int position) {
    uint64_t round = 0;
    for (DataType dtype : kTypes) {
      for (const std::vector<int64_t>& counts : std::vector<std::vector<int64_t>>{
               {1}, {700, 1, 0, 640}, {3000, 17, 2999, 5}, {0, 40000, 1, 12345, 30}, {150000}}) {
        const arithmetic::Reduction how(dtype, ++round % 2 == 0 ? ReduceOp::kSum : ReduceOp::kMax);
        const int64_t element = SizeOf(dtype), all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
        std::vector<char> inputs(all * element), outputs(all * element);
        collective::FillOperand(dtype, inputs.data(), all, position, static_cast<int>(round));
        const std::vector<char> before = inputs;
        std::vector<collective::Piece> pieces;
        for (int64_t count : counts) {
          const int64_t at = pieces.empty() ? 0
                                            : static_cast<const char*>(pieces.back().input) - inputs.data() +
                                                  pieces.back().count * element;
          pieces.push_back({inputs.data() + at, outputs.data() + at, count});
        }
        const absl::Status s = communicator->AllreducePieces({1, round, 0}, how, pieces);
        ASSERT_TRUE(s.ok()) << s;
        ASSERT_EQ(collective::WrongCell(how, outputs.data(), all, ranks(), static_cast<int>(round)), -1)
            << Name(dtype) << " " << Name(how.op) << " " << all;
        ASSERT_EQ(inputs, before);
      }
    }
  });
}

TEST_P(HierarchicalCommunicatorTest, ReducescattersUnevenParts) {
  Run([](HierarchicalCommunicator* communicator, int) { collective::CheckReducescatter(communicator); });
}

// The last tensor of a batch of as many as may be open: each takes four parts.
TEST_P(HierarchicalCommunicatorTest, ABatchMayHaveAsManyPartsAsRequestsMayBeOpen) {
  Run([](HierarchicalCommunicator* communicator, int) {
    for (uint32_t tensor : {4095u, 4096u, 65535u}) {
      const collective::Instance instance{1, 1, 0, tensor * 4};
      std::vector<int64_t> counts(communicator->size(), 4);
      const int32_t own = communicator->position();
      std::vector<int32_t> all(communicator->size());
      const absl::Status s = communicator->Allgather(instance, &own, all.data(), counts);
      ASSERT_TRUE(s.ok()) << tensor << ": " << s;
      for (int m = 0; m < communicator->size(); ++m) EXPECT_EQ(all[m], m);
    }
  });
}

TEST_P(HierarchicalCommunicatorTest, AlltoallOfDifferentSizes) {
  Run([](HierarchicalCommunicator* communicator, int) { collective::CheckAlltoall(communicator); });
}

TEST_P(HierarchicalCommunicatorTest, AllgatherOfDifferentSizes) {
  Run([&](HierarchicalCommunicator* communicator, int position) {
    int round = 0;
    for (int64_t unit : {0, 1, 90, 700, 20000}) {
      for (const bool at_its_place : {false, true}) {
        ++round;
        std::vector<int64_t> counts(ranks());
        for (int r = 0; r < ranks(); ++r) counts[r] = (r + round) % 3 == 0 ? 0 : unit * (r % 4 + 1) + r % 2;
        const int64_t before = std::accumulate(counts.begin(), counts.begin() + position, int64_t{0});
        const int64_t total = std::accumulate(counts.begin(), counts.end(), int64_t{0});
        std::vector<char> input(counts[position] + 1), output(total + 1, 'x');
        char* const in = at_its_place ? output.data() + before : input.data();
        collective::FillOperand(DataType::kUint8, in, counts[position], position, round);
        const collective::Instance instance{1, static_cast<uint64_t>(round), 0};
        const absl::Status s = communicator->Allgather(instance, in, output.data(), counts);
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

TEST_P(HierarchicalCommunicatorTest, BroadcastFromEveryRoot) {
  Run([&](HierarchicalCommunicator* communicator, int position) {
    int round = 0;
    for (int root = 0; root < ranks(); ++root) {
      for (int64_t bytes : {0, 1, 481, 6000, 8193, 50000, 300000}) {
        ++round;
        std::vector<char> data(bytes + 1);
        collective::FillOperand(DataType::kUint8, data.data(), bytes, position, round);
        const collective::Instance instance{1, static_cast<uint64_t>(round), 0};
        const absl::Status s = communicator->Broadcast(instance, root, data.data(), bytes);
        ASSERT_TRUE(s.ok()) << s;
        for (int64_t i = 0; i < bytes; ++i) ASSERT_EQ(data[i], collective::FormulaCell(root, i, round)) << i;
      }
    }
  });
}

TEST_P(HierarchicalCommunicatorTest, NobodyLeavesABarrierBeforeTheLastArrives) {
  std::atomic<int> arrived{0};
  Run([&](HierarchicalCommunicator* communicator, int) {
    for (int round = 1; round <= 100; ++round) {
      arrived.fetch_add(1);
      ASSERT_TRUE(communicator->Barrier(collective::Instance{1, 2 * static_cast<uint64_t>(round), 0}).ok());
      ASSERT_EQ(arrived.load(), round * ranks());
      ASSERT_TRUE(communicator->Barrier(collective::Instance{1, 2 * static_cast<uint64_t>(round) + 1, 0}).ok());
    }
  });
}

TEST_P(HierarchicalCommunicatorTest, PartsOfABatchAreInstancesOfTheirOwn) {
  Run([&](HierarchicalCommunicator* communicator, int position) {
    for (uint32_t part = 0; part < 50; ++part) {
      float value = static_cast<float>(position + part);
      ASSERT_TRUE(communicator->Allreduce(collective::Instance{1, 7, 3, part}, DataType::kFloat32, &value, 1).ok());
      ASSERT_EQ(value, ranks() * (ranks() - 1) / 2 + ranks() * part);
    }
  });
}

TEST_P(HierarchicalCommunicatorTest, AllRanksGetTheSameBitsEveryTime) {
  for (int64_t count : {100, 9000}) {
    std::vector<std::vector<float>> results(ranks() * 2);
    Run([&](HierarchicalCommunicator* communicator, int position) {
      for (int run = 0; run < 2; ++run) {
        std::vector<float> values(count);
        std::mt19937 random(position);
        for (float& value : values) value = std::ldexp(static_cast<float>(random()), random() % 40);
        const collective::Instance instance{1, static_cast<uint64_t>(run), 0};
        ASSERT_TRUE(communicator->Allreduce(instance, DataType::kFloat32, values.data(), count).ok());
        results[position * 2 + run] = values;
      }
    });
    for (const auto& result : results) EXPECT_EQ(result, results[0]);
  }
}

// 256 and a one from everybody else: rounded after each addition, the ones would be lost.
TEST_P(HierarchicalCommunicatorTest, SixteenBitSumsAreRoundedOnce) {
  for (int64_t count : {1, 9000}) {
    Run([&](HierarchicalCommunicator* communicator, int position) {
      const float own = position == 0 ? 256 : 1;
      std::vector<uint16_t> values(count, arithmetic::Bfloat16FromFloat(own));
      ASSERT_TRUE(
          communicator->Allreduce(collective::Instance{1, 1, 0}, DataType::kBfloat16, values.data(), count).ok());
      const uint16_t expected = arithmetic::Bfloat16FromFloat(256.0f + ranks() - 1);
      for (uint16_t value : values) ASSERT_EQ(value, expected);
    });
  }
}

// Factors are applied once, whichever layer does it.
TEST_P(HierarchicalCommunicatorTest, FactorsOfAReduction) {
  for (DataType dtype : {DataType::kFloat16, DataType::kFloat32, DataType::kFloat64}) {
    for (int64_t count : {1, 9000}) {
      Run([&](HierarchicalCommunicator* communicator, int position) {
        std::vector<char> data(count * SizeOf(dtype));
        collective::FillOperand(dtype, data.data(), count, position, 1);
        std::vector<char> expected(data.size());
        for (int64_t i = 0; i < count; ++i) {
          int sum = 0;
          for (int rank = 0; rank < ranks(); ++rank) sum += collective::FormulaCell(rank, i, 1);
          collective::WriteCell(dtype, expected.data() + i * SizeOf(dtype), 8 * sum);
        }
        const arithmetic::Reduction how(dtype, ReduceOp::kSum, 0.5, 16);
        ASSERT_TRUE(communicator->Allreduce(collective::Instance{1, 1, 0}, how, data.data(), count).ok());
        ASSERT_EQ(data, expected) << Name(dtype) << " " << count;
      });
    }
  }
}

TEST_P(HierarchicalCommunicatorTest, WhatIsNotAskedRightBreaksNothing) {
  Run([&](HierarchicalCommunicator* communicator, int) {
    float value = 1;
    const arithmetic::Reduction adasum{DataType::kFloat32, ReduceOp::kAdasum};
    EXPECT_EQ(communicator->Allreduce(collective::Instance{1, 1, 0}, adasum, &value, 1).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_EQ(communicator->Broadcast(collective::Instance{1, 2, 0}, ranks(), &value, 1).code(),
              absl::StatusCode::kInvalidArgument);
    EXPECT_TRUE(communicator->Barrier(collective::Instance{1, 3, 0}).ok());
  });
}

// Counts what is registered with the transport below, on all members.
class CountingTransport final : public transport::Transport {
 public:
  explicit CountingTransport(std::atomic<int>* registered) : registered_(registered) {}

  const char* name() const override { return under_.name(); }
  absl::Status Usable() const override { return under_.Usable(); }
  absl::StatusOr<std::string> Listen() override { return under_.Listen(); }
  absl::StatusOr<std::unique_ptr<transport::Memory>> Register(void* data, size_t bytes) override {
    // Nothing is registered where there is nothing.
    if (bytes > 0) ++*registered_;
    return under_.Register(data, bytes);
  }
  void Connect(const std::string& address, const transport::Pairing& pairing, TimePoint deadline,
               Ready ready) override {
    under_.Connect(address, pairing, deadline, std::move(ready));
  }
  void Accept(const transport::Pairing& pairing, TimePoint deadline, Ready ready) override {
    under_.Accept(pairing, deadline, std::move(ready));
  }

 private:
  transport::inproc::InprocTransport under_;
  std::atomic<int>* const registered_;
};

// A script's batches are packed into the same memory again and again: a device gets to know it once. In shared memory,
// and where a member is alone or asks for more than there is in memory of its own.
TEST(HierarchicalRegistrationTest, TheMemoryOfBatchesIsRegisteredOnce) {
  for (const std::vector<int>& hosts : std::vector<std::vector<int>>{{0, 0, 1, 1}, {0, 1}, {0, 0, 0, 1, 1}}) {
    for (const int64_t count : {1500, 10000, 70000}) {
      std::atomic<int> registered{0};
      const auto make = [&] { return std::make_unique<CountingTransport>(&registered); };
      RunOnHosts(hosts, make, SmallHierarchicalOptions(), [&](HierarchicalCommunicator* communicator, int) {
        std::vector<float> values(count, 1);
        const arithmetic::Reduction how(DataType::kFloat32, ReduceOp::kMax);
        const std::vector<collective::Piece> pieces = {{values.data(), values.data(), count / 2},
                                                       {&values[count / 2], &values[count / 2], count - count / 2}};
        int before = 0;
        for (uint64_t round = 1; round <= 5; ++round) {
          ASSERT_TRUE(communicator->AllreducePieces({1, 3 * round, 0}, how, pieces).ok());
          ASSERT_TRUE(communicator->Barrier({1, 3 * round + 1, 0}).ok());
          if (round == 1) before = registered;
          ASSERT_TRUE(communicator->Barrier({1, 3 * round + 2, 0}).ok());
        }
        EXPECT_EQ(registered, before) << hosts.size() << " members, " << count << " elements";
      });
    }
  }
}

}  // namespace
}  // namespace farandole::worker::hier
