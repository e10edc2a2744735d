#include "worker/cuda/fake_nccl_work.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "worker/arithmetic/half.h"

namespace farandole::worker::cuda {
namespace {

// What becomes of the i-th values of the ranks.
template <typename T>
T ReduceOne(const FakeNcclReduction& reduction, const std::vector<T>& by_rank) {
  std::vector<const char*> in;
  for (const T& value : by_rank) in.push_back(reinterpret_cast<const char*>(&value));
  T out;
  FakeNcclReduce(reduction, in, reinterpret_cast<char*>(&out), 1);
  return out;
}

FakeNcclReduction How(ncclDataType_t type, ncclRedOp_t op) { return {type, op, {}}; }

TEST(FakeNcclWork, KnowsTheSizesOfTypes) {
  const size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  for (int type = ncclInt8; type <= ncclBfloat16; ++type) {
    EXPECT_EQ(FakeNcclBytesOf(static_cast<ncclDataType_t>(type)), sizes[type]) << type;
  }
}

template <typename T>
struct Typed {
  using Type = T;
};
template <typename T, typename With>
void Try(ncclDataType_t type, With with) {
  SCOPED_TRACE(type);
  with(type, Typed<T>());
}
// All types that a host has.
template <typename With>
void ForPlainTypes(With with) {
  Try<int8_t>(ncclInt8, with);
  Try<uint8_t>(ncclUint8, with);
  Try<int32_t>(ncclInt32, with);
  Try<uint32_t>(ncclUint32, with);
  Try<int64_t>(ncclInt64, with);
  Try<uint64_t>(ncclUint64, with);
  Try<float>(ncclFloat32, with);
  Try<double>(ncclFloat64, with);
}

TEST(FakeNcclWork, CombinesPlainNumbers) {
  ForPlainTypes([](ncclDataType_t type, auto typed) {
    using T = typename decltype(typed)::Type;
    const std::vector<T> values = {5, 3, 4};
    EXPECT_EQ(ReduceOne<T>(How(type, ncclSum), values), T{12});
    EXPECT_EQ(ReduceOne<T>(How(type, ncclProd), values), T{60});
    EXPECT_EQ(ReduceOne<T>(How(type, ncclMax), values), T{5});
    EXPECT_EQ(ReduceOne<T>(How(type, ncclMin), values), T{3});
    EXPECT_EQ(ReduceOne<T>(How(type, ncclAvg), values), T{4});
    FakeNcclReduction scaled = How(type, ncclSum);
    for (const int factor : {1, 2, 3}) scaled.factors.push_back(FakeNcclScalarOf(factor, type));
    EXPECT_EQ(ReduceOne<T>(scaled, values), T{5 + 6 + 12});
  });
}

TEST(FakeNcclWork, KnowsSigns) {
  EXPECT_EQ(ReduceOne<int8_t>(How(ncclInt8, ncclMin), {-1, 1}), -1);
  EXPECT_EQ(ReduceOne<uint8_t>(How(ncclUint8, ncclMin), {255, 1}), 1);
  EXPECT_EQ(ReduceOne<int64_t>(How(ncclInt64, ncclMax), {-5, -7}), -5);
  EXPECT_EQ(ReduceOne<int32_t>(How(ncclInt32, ncclAvg), {-4, -3}), -3) << "towards zero";
}

TEST(FakeNcclWork, LetsIntegersWrap) {
  EXPECT_EQ(ReduceOne<int8_t>(How(ncclInt8, ncclSum), {127, 1}), -128);
  EXPECT_EQ(ReduceOne<int32_t>(How(ncclInt32, ncclProd), {65536, 65536}), 0);
  const int64_t most = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(ReduceOne<int64_t>(How(ncclInt64, ncclSum), {most, 1}), std::numeric_limits<int64_t>::min());
}

// 1e8 is lost in the first sum only: (1e8 + 1) - 1e8.
TEST(FakeNcclWork, GoesInTheOrderOfRanks) {
  EXPECT_EQ(ReduceOne<float>(How(ncclFloat32, ncclSum), {1e8f, 1, -1e8f}), 0);
  EXPECT_EQ(ReduceOne<float>(How(ncclFloat32, ncclSum), {1e8f, -1e8f, 1}), 1);
}

TEST(FakeNcclWork, LeavesOutWhatIsNotANumber) {
  EXPECT_EQ(ReduceOne<float>(How(ncclFloat32, ncclMax), {NAN, 1}), 1);
  EXPECT_EQ(ReduceOne<double>(How(ncclFloat64, ncclMin), {1, NAN}), 1);
  EXPECT_TRUE(std::isnan(ReduceOne<float>(How(ncclFloat32, ncclSum), {NAN, 1})));
}

// 2048 + 1 + 1 is 2050 in float32, and would stay 2048 if float16 were rounded after each; likewise 256 in bfloat16.
TEST(FakeNcclWork, RoundsHalvesOnce) {
  const auto half = arithmetic::Float16FromFloat;
  EXPECT_EQ(ReduceOne<uint16_t>(How(ncclFloat16, ncclSum), {half(2048), half(1), half(1)}), half(2050));
  EXPECT_EQ(ReduceOne<uint16_t>(How(ncclFloat16, ncclMin), {half(-2), half(1)}), half(-2));
  const auto brain = arithmetic::Bfloat16FromFloat;
  EXPECT_EQ(ReduceOne<uint16_t>(How(ncclBfloat16, ncclSum), {brain(256), brain(1), brain(1)}), brain(258));
  EXPECT_EQ(ReduceOne<uint16_t>(How(ncclBfloat16, ncclProd), {brain(-2), brain(1.5)}), brain(-3));
}

TEST(FakeNcclWork, RoundsFactorsToTheType) {
  FakeNcclReduction third = How(ncclFloat16, ncclSum);
  third.factors = {FakeNcclScalarOf(1.0 / 3, ncclFloat16)};
  const float rounded = arithmetic::FloatFromFloat16(arithmetic::Float16FromFloat(1.0f / 3));
  EXPECT_EQ(ReduceOne<uint16_t>(third, {arithmetic::Float16FromFloat(3)}), arithmetic::Float16FromFloat(3 * rounded));
  EXPECT_EQ(FakeNcclScalarOf(0.1, ncclFloat64).bytes, 0x3fb999999999999au);
}

TEST(FakeNcclWork, MayWriteWhereItReads) {
  std::vector<int32_t> one = {1, 2, 3};
  const std::vector<int32_t> other = {10, 20, 30};
  char* const out = reinterpret_cast<char*>(one.data());
  FakeNcclReduce(How(ncclInt32, ncclSum), {out, reinterpret_cast<const char*>(other.data())}, out, 3);
  EXPECT_EQ(one, (std::vector<int32_t>{11, 22, 33}));
}

}  // namespace
}  // namespace farandole::worker::cuda
