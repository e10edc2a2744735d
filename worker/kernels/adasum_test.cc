#include "worker/kernels/adasum.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "proto/types.h"
#include "worker/arithmetic/adasum.h"

// On the host, beside the arithmetic of the host's own Adasum.
namespace farandole::worker::kernels {
namespace {

template <typename Reals>
class Case {
 public:
  using Bits = typename Reals::Bits;

  Case(DataType type, int members, std::vector<int64_t> counts) : type_(type), counts_(std::move(counts)) {
    int64_t end = 0;
    for (size_t k = 0; k < counts_.size(); ++k) table_.push_back({end += counts_[k], k == 1 ? 0.5 : 1});
    operands_.resize(members * end);
    for (size_t i = 0; i < operands_.size(); ++i) {
      operands_[i] = Reals::Narrowed(static_cast<double>((i * 7919) % 127) / 16 - 3);
    }
    out_.resize(end);
    const auto pieces = static_cast<int32_t>(table_.size());
    call_ = {table_.data(),
             nullptr,
             nullptr,
             reinterpret_cast<uint64_t>(operands_.data()),
             reinterpret_cast<uint64_t>(out_.data()),
             end,
             pieces,
             members};
    products_.resize(pieces * arithmetic::AdasumProducts(call_.members));
    weights_.resize(2 * pieces * members);
    call_.products = products_.data();
    call_.weights = weights_.data();
  }

  void Check() {
    constexpr int64_t kChunk = 10;
    for (int64_t group = 0; group < 3; ++group) AddAdasumProducts<Reals>(call_, kChunk, {group, 3, 0, 1});
    for (int64_t lane = 0; lane < 2; ++lane) FillWeights(call_, {0, 1, lane, 2});
    for (int64_t group = 0; group < 3; ++group) {
      for (int64_t lane = 0; lane < 2; ++lane) AddWeighted<Reals>(call_, kChunk, {group, 3, lane, 2});
    }
    int64_t begin = 0;
    for (size_t k = 0; k < counts_.size(); ++k) CheckPiece(k, &begin);
  }

 private:
  void CheckPiece(size_t k, int64_t* begin) {
    std::vector<const char*> operands;
    for (int m = 0; m < call_.members; ++m) {
      operands.push_back(reinterpret_cast<const char*>(operands_.data() + m * call_.count + *begin));
    }
    std::vector<double> products(arithmetic::AdasumProducts(call_.members));
    arithmetic::AddDotProducts(type_, operands, counts_[k], absl::MakeSpan(products));
    const double* const ours = call_.products + k * arithmetic::AdasumProducts(call_.members);
    // Sums of multiples of 2^-8 in double: exact, whatever their order.
    EXPECT_EQ(std::vector<double>(ours, ours + products.size()), products) << Name(type_) << " " << k;
    std::vector<double> weights = arithmetic::AdasumWeights(products, call_.members);
    for (double& weight : weights) weight *= table_[k].factor;
    EXPECT_EQ(std::memcmp(call_.weights + 2 * k * call_.members, weights.data(), weights.size() * sizeof(double)), 0);
    std::vector<Bits> expected(counts_[k]);
    arithmetic::WeightedSum(type_, operands, weights, reinterpret_cast<char*>(expected.data()), counts_[k]);
    const auto ours_begin = out_.begin() + *begin;
    EXPECT_EQ(std::vector<Bits>(ours_begin, ours_begin + counts_[k]), expected) << Name(type_);
    *begin += counts_[k];
  }

  const DataType type_;
  const std::vector<int64_t> counts_;
  std::vector<AdasumPiece> table_;
  std::vector<Bits> operands_, out_;
  std::vector<double> products_, weights_;
  AdasumCall call_ = {};
};

TEST(AdasumKernelsTest, AreTheHostsArithmeticBitByBit) {
  for (const int members : {1, 2, 3, 5, 8}) {
    const std::vector<int64_t> counts = {3, 0, 45, 1, 17};
#define FARANDOLE_CHECK(name, type, Reals) Case<Reals>(DataType::type, members, counts).Check();
    FARANDOLE_ADASUM_KERNELS(FARANDOLE_CHECK)
#undef FARANDOLE_CHECK
  }
}

// Equal gradients are averaged, and a zero beside another leaves it.
TEST(AdasumKernelsTest, OfSpecialOperands) {
  const double same[] = {4, 4, 4}, zero[] = {0, 0, 9};
  double weights[2], squares[2];
  arithmetic::FillAdasumWeights(same, 2, weights, squares);
  EXPECT_EQ(weights[0], 0.5);
  EXPECT_EQ(weights[1], 0.5);
  arithmetic::FillAdasumWeights(zero, 2, weights, squares);
  EXPECT_EQ(weights[0], 1);
  EXPECT_EQ(weights[1], 1);
}

}  // namespace
}  // namespace farandole::worker::kernels
