#include "tests/metamorphic/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "tests/metamorphic/cell.h"

namespace farandole::metamorphic {
namespace {

using Operands = std::vector<std::vector<char>>;

uint64_t CombineIntegers(const worker::arithmetic::Reduction& how, int64_t a, int64_t b) {
  const uint64_t ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  switch (how.op) {
    case ReduceOp::kMin:
      return static_cast<uint64_t>(std::min(a, b));
    case ReduceOp::kMax:
      return static_cast<uint64_t>(std::max(a, b));
    case ReduceOp::kProduct:
      return ua * ub;
    default:
      return ua + ub;
  }
}

// NaN wins, and -0 is less than +0.
double Extreme(bool least, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  if (a == b) return std::signbit(a) == least ? a : b;
  return (a < b) == least ? a : b;
}

long double CombineFloats(ReduceOp op, long double a, long double b) {
  if (op == ReduceOp::kProduct) return a * b;
  if (op == ReduceOp::kSum) return a + b;
  return Extreme(op == ReduceOp::kMin, static_cast<double>(a), static_cast<double>(b));
}

// Cells [begin, begin + count) of the combination.
Expected Combined(const Call& call, const Operands& operands, int64_t begin, int64_t count) {
  const worker::arithmetic::Reduction& how = call.how;
  const int64_t size = SizeOf(how.dtype);
  const int n = static_cast<int>(operands.size());
  const bool extreme = how.op == ReduceOp::kMin || how.op == ReduceOp::kMax;
  Expected expected;
  expected.exact = IsInteger(how.dtype) || call.fill == Call::Fill::kSmall || (extreme && !how.scales());
  expected.bytes.resize(expected.exact ? count * size : 0);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t at = (begin + i) * size;
    if (IsInteger(how.dtype)) {
      int64_t value = ReadInteger(how.dtype, &operands[0][at]);
      for (int m = 1; m < n; ++m) {
        char cell[8];
        WriteInteger(how.dtype, cell, CombineIntegers(how, value, ReadInteger(how.dtype, &operands[m][at])));
        value = ReadInteger(how.dtype, cell);
      }
      WriteInteger(how.dtype, &expected.bytes[i * size], static_cast<uint64_t>(value));
      continue;
    }
    long double value = 0, magnitude = 0;
    for (int m = 0; m < n; ++m) {
      const long double scaled = static_cast<long double>(how.prescale) * ReadFloat(how.dtype, &operands[m][at]);
      value = m == 0 ? scaled : CombineFloats(how.op, value, scaled);
      magnitude += std::fabs(scaled);
    }
    value *= how.postscale;
    if (expected.exact) {
      WriteFloat(how.dtype, &expected.bytes[i * size], static_cast<double>(value));
      // All bits of a NaN are set (worker/arithmetic/reduce.h).
      if (std::isnan(value)) std::memset(&expected.bytes[i * size], 0xff, size);
      continue;
    }
    const double roundings = extreme ? 5 : how.op == ReduceOp::kProduct ? 3 * n + 3 : n + 4;
    if (how.op == ReduceOp::kSum) magnitude *= std::fabs(how.postscale);
    if (how.op != ReduceOp::kSum) magnitude = std::fabs(value);
    expected.values.push_back(static_cast<double>(value));
    expected.bounds.push_back(static_cast<double>(roundings * UnitRoundoff(how.dtype) * magnitude * 1.01L +
                                                  (n + 3) * SmallestHalf(how.dtype)));
  }
  return expected;
}

void Append(const std::vector<char>& from, int64_t begin, int64_t bytes, std::vector<char>* to) {
  to->insert(to->end(), from.begin() + begin, from.begin() + begin + bytes);
}

}  // namespace

Expected Reference(const Call& call, int position, int ranks) {
  Operands operands;
  for (int m = 0; m < ranks; ++m) operands.push_back(OperandOf(call, m, ranks));
  const int64_t size = SizeOf(call.how.dtype);
  Expected expected;
  switch (call.kind) {
    case Call::Kind::kBarrier:
      break;
    case Call::Kind::kAllreduce:
      return Combined(call, operands, 0, call.counts[0]);
    case Call::Kind::kReducescatter:
      return Combined(call, operands, std::accumulate(call.counts.begin(), call.counts.begin() + position, int64_t{0}),
                      call.counts[position]);
    case Call::Kind::kBroadcast:
      expected.bytes = operands[call.root];
      break;
    case Call::Kind::kAllgather:
      for (const auto& operand : operands) Append(operand, 0, operand.size(), &expected.bytes);
      break;
    case Call::Kind::kAlltoall:
      for (int m = 0; m < ranks; ++m) {
        const auto row = call.counts.begin() + m * ranks;
        const int64_t before = std::accumulate(row, row + position, int64_t{0});
        Append(operands[m], before * size, row[position] * size, &expected.bytes);
      }
      break;
  }
  return expected;
}

std::string Complaint(const Call& call, const Expected& expected, const std::vector<char>& actual) {
  const DataType dtype = call.how.dtype;
  const int64_t size = SizeOf(dtype);
  const size_t bytes = expected.exact ? expected.bytes.size() : expected.values.size() * size;
  if (actual.size() != bytes) return absl::StrCat(actual.size(), " bytes instead of ", bytes);
  for (int64_t i = 0; i * size < static_cast<int64_t>(bytes); ++i) {
    const char* const cell = &actual[i * size];
    const double value = IsInteger(dtype) ? ReadInteger(dtype, cell) : ReadFloat(dtype, cell);
    if (expected.exact) {
      const char* const wanted = &expected.bytes[i * size];
      if (std::memcmp(cell, wanted, size) == 0) continue;
      const double other = IsInteger(dtype) ? ReadInteger(dtype, wanted) : ReadFloat(dtype, wanted);
      return absl::StrCat("element ", i, " is ", value, " instead of ", other);
    }
    const double error = std::fabs(value - expected.values[i]);
    // NaN, too.
    if (!(error <= expected.bounds[i])) {
      return absl::StrCat("element ", i, " is ", value, ", ", error, " from ", expected.values[i], ", allowed ",
                          expected.bounds[i]);
    }
  }
  return "";
}

}  // namespace farandole::metamorphic
