#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "worker/arithmetic/half.h"
#include "worker/cuda/fake_ranks_testing.h"
#include "worker/cuda/nccl_abi.h"

// What collectives do to elements of all types, by all operations.
namespace farandole::worker::cuda {
namespace {

constexpr ncclDataType_t kTypes[] = {ncclInt8,   ncclUint8,   ncclInt32,   ncclUint32,  ncclInt64,
                                     ncclUint64, ncclFloat16, ncclFloat32, ncclFloat64, ncclBfloat16};

template <typename T>
std::vector<char> BytesOf(const T& value) {
  std::vector<char> bytes(sizeof(value));
  memcpy(bytes.data(), &value, sizeof(value));
  return bytes;
}

// A small number, or one half, which all types hold as far as they have fractions.
std::vector<char> Stored(double value, ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return BytesOf(static_cast<int8_t>(value));
    case ncclUint8:
      return BytesOf(static_cast<uint8_t>(value));
    case ncclInt32:
      return BytesOf(static_cast<int32_t>(value));
    case ncclUint32:
      return BytesOf(static_cast<uint32_t>(value));
    case ncclInt64:
      return BytesOf(static_cast<int64_t>(value));
    case ncclUint64:
      return BytesOf(static_cast<uint64_t>(value));
    case ncclFloat16:
      return BytesOf(arithmetic::Float16FromFloat(static_cast<float>(value)));
    case ncclFloat32:
      return BytesOf(static_cast<float>(value));
    case ncclFloat64:
      return BytesOf(value);
    default:
      return BytesOf(arithmetic::Bfloat16FromFloat(static_cast<float>(value)));
  }
}

class FakeNcclOperationsTest : public testing::TestWithParam<ncclDataType_t> {
 protected:
  static constexpr int kRanks = 2;

  // An allreduce of 4 on rank 0 and 6 on rank 1.
  static void ExpectOf(FakeRank& rank, ncclRedOp_t op, double expected) {
    auto* const both = rank.Put(Stored(rank.rank() == 0 ? 4 : 6, GetParam()));
    rank.Check(rank.nccl().ncclAllReduce(both, both, 1, GetParam(), op, rank.comm(), rank.stream()));
    EXPECT_EQ(rank.Get(both, Stored(0, GetParam()).size()), Stored(expected, GetParam())) << "operation " << op;
  }

  Fakes fakes_{kRanks};
};

INSTANTIATE_TEST_SUITE_P(Types, FakeNcclOperationsTest, testing::ValuesIn(kTypes));

TEST_P(FakeNcclOperationsTest, AllReduceByEach) {
  RunRanks(fakes_, kRanks, [](FakeRank& rank) {
    ExpectOf(rank, ncclSum, 10);
    ExpectOf(rank, ncclProd, 24);
    ExpectOf(rank, ncclMax, 6);
    ExpectOf(rank, ncclMin, 4);
    ExpectOf(rank, ncclAvg, 5);
  });
}

// Each rank brings its own factor.
TEST_P(FakeNcclOperationsTest, AllReduceByFactors) {
  RunRanks(fakes_, kRanks, [](FakeRank& rank) {
    const bool whole = GetParam() < ncclFloat16;
    std::vector<char> factor = Stored(rank.rank() == 0 ? 2 : (whole ? 3 : 0.5), GetParam());
    ncclRedOp_t op = ncclSum;
    const NcclApi& nccl = rank.nccl();
    rank.Check(nccl.ncclRedOpCreatePreMulSum(&op, factor.data(), GetParam(), ncclScalarHostImmediate, rank.comm()));
    ExpectOf(rank, op, whole ? 8 + 18 : 8 + 3);
    rank.Check(nccl.ncclRedOpDestroy(op, rank.comm()));
  });
}

TEST_P(FakeNcclOperationsTest, ReduceScatterByAverage) {
  RunRanks(fakes_, kRanks, [](FakeRank& rank) {
    std::vector<char> in;
    for (const double value : {2, 8}) {
      const std::vector<char> stored = Stored(value + 2 * rank.rank(), GetParam());
      in.insert(in.end(), stored.begin(), stored.end());
    }
    const auto* const from = rank.Put(in);
    auto* const to = rank.New<char>(in.size() / 2);
    rank.Check(rank.nccl().ncclReduceScatter(from, to, 1, GetParam(), ncclAvg, rank.comm(), rank.stream()));
    EXPECT_EQ(rank.Get(to, in.size() / 2), Stored(rank.rank() == 0 ? 3 : 9, GetParam()));
  });
}

}  // namespace
}  // namespace farandole::worker::cuda
