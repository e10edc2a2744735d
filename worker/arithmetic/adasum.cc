#include "worker/arithmetic/adasum.h"

#include <algorithm>
#include <cstring>

#include "worker/arithmetic/adasum_tree.h"
#include "worker/arithmetic/reduce.h"
#include "worker/arithmetic/reduction.h"

namespace farandole::worker::arithmetic {
namespace {

// Elements of each operand that are converted to double at a time.
constexpr int64_t kPiece = 512;
// Sums side by side, which a vector can hold.
constexpr int kSums = 8;
static_assert(kPiece % kSums == 0, "the rest of a piece is filled up with zeros");

template <typename T>
void LoadAs(const char* from, int64_t count, double* to) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, from + i * sizeof(T), sizeof(T));
    to[i] = static_cast<double>(value);
  }
}

// At most kPiece elements.
void Load(DataType dtype, const char* from, int64_t count, double* to) {
  if (dtype == DataType::kFloat64) return LoadAs<double>(from, count, to);
  if (dtype == DataType::kFloat32) return LoadAs<float>(from, count, to);
  float wide[kPiece];
  Widen(dtype, wide, from, count);
  LoadAs<float>(reinterpret_cast<const char*>(wide), count, to);
}

// 16-bit floats by way of float32.
void Store(DataType dtype, const double* from, int64_t count, char* to) {
  if (dtype == DataType::kFloat64) {
    std::memcpy(to, from, count * sizeof(double));
    return;
  }
  float single[kPiece];
  for (int64_t i = 0; i < count; ++i) single[i] = static_cast<float>(from[i]);
  if (IsHalf(dtype)) return Narrow(dtype, to, single, count);
  std::memcpy(to, single, count * sizeof(float));
}

double Dot(const double* a, const double* b, int64_t count) {
  double sums[kSums] = {};
  for (int64_t i = 0; i < count; i += kSums) {
    for (int k = 0; k < kSums; ++k) sums[k] += a[i + k] * b[i + k];
  }
  double sum = 0;
  for (double part : sums) sum += part;
  return sum;
}

}  // namespace

bool HasAdasum(DataType dtype) {
  return dtype == DataType::kFloat16 || dtype == DataType::kBfloat16 || dtype == DataType::kFloat32 ||
         dtype == DataType::kFloat64;
}

void AddDotProducts(DataType dtype, absl::Span<const char* const> operands, int64_t count,
                    absl::Span<double> products) {
  const int number = static_cast<int>(operands.size());
  const int64_t size = SizeOf(dtype);
  std::vector<double> pieces(number * kPiece);
  for (int64_t at = 0; at < count; at += kPiece) {
    const int64_t n = std::min(kPiece, count - at), padded = (n + kSums - 1) / kSums * kSums;
    for (int i = 0; i < number; ++i) {
      double* const piece = pieces.data() + i * kPiece;
      Load(dtype, operands[i] + at * size, n, piece);
      std::fill(piece + n, piece + padded, 0.0);
    }
    double* product = products.data();
    for (int i = 0; i < number; ++i) {
      for (int j = 0; j <= i; ++j) {
        *product++ += Dot(pieces.data() + i * kPiece, pieces.data() + j * kPiece, padded);
      }
    }
  }
}

std::vector<double> AdasumWeights(absl::Span<const double> products, int operands) {
  std::vector<double> weights(operands), squares(operands);
  FillAdasumWeights(products.data(), operands, weights.data(), squares.data());
  return weights;
}

void WeightedSum(DataType dtype, absl::Span<const char* const> operands, absl::Span<const double> weights, char* out,
                 int64_t count) {
  const int64_t size = SizeOf(dtype);
  double sums[kPiece], piece[kPiece];
  for (int64_t at = 0; at < count; at += kPiece) {
    const int64_t n = std::min(kPiece, count - at);
    for (size_t i = 0; i < operands.size(); ++i) {
      Load(dtype, operands[i] + at * size, n, piece);
      for (int64_t k = 0; k < n; ++k) sums[k] = i == 0 ? weights[i] * piece[k] : sums[k] + weights[i] * piece[k];
    }
    Store(dtype, sums, n, out + at * size);
  }
}

}  // namespace farandole::worker::arithmetic
