#include "worker/collective/adasum_runner.h"

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
#include "worker/arithmetic/adasum.h"
#include "worker/arithmetic/half.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/collective/lone_communicator.h"
#include "worker/schedule/scheduled_communicator.h"
#include "worker/shm/shm_communicator.h"

namespace farandole::worker::collective {
namespace {

const std::vector<int64_t> kCounts = {1500, 0, 3, 700, 1};
const std::vector<double> kFactors = {1, 1, 0.5, 3, 2};

float ValueOf(DataType dtype, const std::string& tensor, int64_t i) {
  uint16_t half;
  float single;
  if (dtype == DataType::kFloat32) {
    std::memcpy(&single, tensor.data() + i * 4, 4);
    return single;
  }
  std::memcpy(&half, tensor.data() + i * 2, 2);
  return dtype == DataType::kFloat16 ? arithmetic::FloatFromFloat16(half) : arithmetic::FloatFromBfloat16(half);
}

// What a rank brings as tensor number `layer`: of different directions and lengths.
std::string Input(DataType dtype, int rank, int layer) {
  std::mt19937 random(1000 * rank + layer);
  std::normal_distribution<float> normal;
  std::string tensor;
  for (int64_t i = 0; i < kCounts[layer]; ++i) {
    const float value = normal(random) * (1 + rank) + static_cast<float>(i % 3);
    const uint16_t half =
        dtype == DataType::kFloat16 ? arithmetic::Float16FromFloat(value) : arithmetic::Bfloat16FromFloat(value);
    const char* const from =
        dtype == DataType::kFloat32 ? reinterpret_cast<const char*>(&value) : reinterpret_cast<const char*>(&half);
    tensor.append(from, SizeOf(dtype));
  }
  return tensor;
}

std::string Expected(DataType dtype, int layer, int ranks, int joined) {
  std::vector<std::string> inputs;
  std::vector<const char*> operands;
  for (int rank = 0; rank < ranks; ++rank) {
    inputs.push_back(Input(dtype, rank, layer));
    if (rank == joined) inputs.back().assign(inputs.back().size(), '\0');
  }
  for (const std::string& input : inputs) operands.push_back(input.data());
  std::vector<double> products(arithmetic::AdasumProducts(ranks));
  arithmetic::AddDotProducts(dtype, operands, kCounts[layer], absl::MakeSpan(products));
  std::vector<double> weights = arithmetic::AdasumWeights(products, ranks);
  for (double& weight : weights) weight *= kFactors[layer];
  std::string out(inputs[0].size(), '\0');
  arithmetic::WeightedSum(dtype, operands, weights, out.data(), kCounts[layer]);
  return out;
}

// The results of one rank; `joined` has nothing to add.
std::vector<std::string> RunRank(BlockingCommunicator* communicator, DataType dtype, uint64_t anchor, int joined) {
  std::vector<std::string> inputs, outputs;
  std::vector<Piece> pieces;
  for (size_t layer = 0; layer < kCounts.size(); ++layer) {
    inputs.push_back(Input(dtype, communicator->position(), static_cast<int>(layer)));
    outputs.emplace_back(inputs.back().size(), 'x');
  }
  for (size_t layer = 0; layer < kCounts.size(); ++layer) {
    pieces.push_back({inputs[layer].data(), outputs[layer].data(), kCounts[layer]});
    if (communicator->position() == joined) pieces.back() = {nullptr, nullptr, kCounts[layer]};
  }
  const absl::Status status = AdasumRunner().Run({1, anchor, 0}, dtype, pieces, kFactors, communicator);
  EXPECT_TRUE(status.ok()) << status;
  for (size_t layer = 0; layer < kCounts.size(); ++layer) {
    EXPECT_EQ(inputs[layer], Input(dtype, communicator->position(), static_cast<int>(layer))) << "inputs stay";
  }
  return outputs;
}

void CheckResults(DataType dtype, const std::vector<std::vector<std::string>>& of_ranks, int joined) {
  const int ranks = static_cast<int>(of_ranks.size()), first = joined == 0 ? 1 : 0;
  const float step = dtype == DataType::kFloat32 ? 0x1p-22f : dtype == DataType::kFloat16 ? 0x1p-10f : 0x1p-7f;
  for (size_t layer = 0; layer < kCounts.size(); ++layer) {
    const std::string expected = Expected(dtype, static_cast<int>(layer), ranks, joined);
    for (int rank = 0; rank < ranks; ++rank) {
      if (rank == joined) continue;
      ASSERT_EQ(of_ranks[rank][layer], of_ranks[first][layer]) << "rank " << rank << " has other bits";
    }
    for (int64_t i = 0; i < kCounts[layer]; ++i) {
      const float value = ValueOf(dtype, expected, i);
      ASSERT_NEAR(ValueOf(dtype, of_ranks[first][layer], i), value, std::fabs(value) * step)
          << Name(dtype) << ", " << ranks << " ranks, layer " << layer << ", " << i;
    }
  }
}

using Make = std::function<std::unique_ptr<BlockingCommunicator>(int ranks, int rank, LocalBootstrap* bootstrap)>;

void CheckAll(const Make& make) {
  for (int ranks : {2, 3, 4, 5}) {
    uint64_t anchor = 0;
    std::vector<std::vector<std::vector<std::string>>> results(3 * 2, std::vector<std::vector<std::string>>(ranks));
    LocalBootstrap bootstrap;
    std::vector<std::thread> threads;
    const DataType dtypes[] = {DataType::kFloat32, DataType::kFloat16, DataType::kBfloat16};
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank, anchor]() mutable {
        const std::unique_ptr<BlockingCommunicator> communicator = make(ranks, rank, &bootstrap);
        ASSERT_NE(communicator, nullptr);
        for (int k = 0; k < 6; ++k) {
          results[k][rank] = RunRank(communicator.get(), dtypes[k / 2], ++anchor, k % 2 == 0 ? -1 : 1);
        }
        // Nobody leaves while another one reads its memory.
        EXPECT_TRUE(communicator->Barrier({1, ++anchor, 0}).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int k = 0; k < 6; ++k) CheckResults(dtypes[k / 2], results[k], k % 2 == 0 ? -1 : 1);
  }
}

TEST(AdasumRunnerTest, InSharedMemory) {
  for (int64_t buffer_bytes : {1 << 20, 64}) {
    CheckAll([buffer_bytes](int ranks, int rank, LocalBootstrap* bootstrap) {
      shm::ShmOptions options;
      options.buffer_bytes = buffer_bytes;
      auto made = shm::ShmCommunicator::Create(TestGroup(ranks, rank), bootstrap, options);
      return made.ok() ? *std::move(made) : std::unique_ptr<shm::ShmCommunicator>();
    });
  }
}

TEST(AdasumRunnerTest, OverChannels) {
  std::vector<std::unique_ptr<transport::inproc::InprocTransport>> transports(5);
  CheckAll([&](int ranks, int rank, LocalBootstrap* bootstrap) {
    transports[rank] = std::make_unique<transport::inproc::InprocTransport>();
    Group group = TestGroup(ranks, rank);
    group.data_key = "key";
    auto made = schedule::ScheduledCommunicator::Create(group, transports[rank].get(), bootstrap);
    return made.ok() ? *std::move(made) : std::unique_ptr<schedule::ScheduledCommunicator>();
  });
}

TEST(AdasumRunnerTest, Alone) {
  LoneCommunicator lone;
  CheckResults(DataType::kFloat16, {RunRank(&lone, DataType::kFloat16, 1, -1)}, -1);
}

TEST(AdasumRunnerTest, WhatHasNone) {
  LoneCommunicator lone;
  EXPECT_EQ(AdasumRunner().Run({}, DataType::kInt32, {}, {}, &lone).code(), absl::StatusCode::kInternal);
}

}  // namespace
}  // namespace farandole::worker::collective
