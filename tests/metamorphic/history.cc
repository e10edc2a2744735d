#include "tests/metamorphic/history.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/metamorphic/cell.h"
#include "tests/sim/random.h"

namespace farandole::metamorphic {
namespace {

using sim::Random;

constexpr DataType kReducible[] = {DataType::kUint8,   DataType::kInt8,    DataType::kUint16,  DataType::kInt16,
                                   DataType::kInt32,   DataType::kInt64,   DataType::kFloat16, DataType::kBfloat16,
                                   DataType::kFloat32, DataType::kFloat64, DataType::kFloat32, DataType::kBfloat16};
constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kSum, ReduceOp::kMin, ReduceOp::kMax, ReduceOp::kProduct};
// Powers of two keep small whole numbers exact.
constexpr double kExactFactors[] = {0.5, 2, -1, 4, 0.25};
constexpr double kAnyFactors[] = {1.0 / 3, 1.9, -0.7, 0.1};
// What products take of these without leaving float16.
constexpr uint64_t kFactorsOfProducts = 3;

template <typename T, size_t N>
T OneOf(const T (&values)[N], Random* random) {
  return values[random->Below(N)];
}

// Nothing, one, odd, what fills a line, what needs chunks and lanes.
int64_t RandomCount(int64_t count_max, Random* random) {
  switch (random->Below(6)) {
    case 0:
      return random->Between(0, 1);
    case 1:
      return 2 * random->Between(1, 60) + 1;
    case 2:
      return 64;
    case 3:
      return random->Between(2, 2000);
    default:
      return random->Skewed(1, count_max);
  }
}

void ChooseReduction(Call* call, Random* random) {
  const DataType dtype = OneOf(kReducible, random);
  call->how = worker::arithmetic::Reduction(dtype, OneOf(kOps, random));
  const bool extreme = call->how.op == ReduceOp::kMin || call->how.op == ReduceOp::kMax;
  const uint64_t fill = random->Below(4);
  call->fill = fill < 2 ? Call::Fill::kSmall : Call::Fill::kAny;
  if (IsInteger(dtype)) return;
  if (extreme && fill == 3) {
    call->fill = Call::Fill::kSpecial;
  } else if (random->Percent(40)) {
    const bool exact = call->fill == Call::Fill::kSmall;
    const auto factor = [&] {
      if (random->Percent(30)) return 1.0;
      const uint64_t which = random->Below(call->how.op == ReduceOp::kProduct ? kFactorsOfProducts : 4);
      return exact ? kExactFactors[which] : kAnyFactors[which];
    };
    call->how.prescale = factor();
    call->how.postscale = factor();
  }
}

double SpecialValue(Random* random) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kValues[] = {0.0, -0.0, 1.5, -2, kInfinity, -kInfinity};
  if (random->Percent(5)) return std::numeric_limits<double>::quiet_NaN();
  return OneOf(kValues, random);
}

// Between 1/2 and 2 if they are multiplied, otherwise between 1/8 and 32; of either sign.
double AnyValue(ReduceOp op, Random* random) {
  const double mantissa = 1 + static_cast<double>(random->Next() >> 11) / 9007199254740992.0;
  const int exponent = op == ReduceOp::kProduct ? random->Between(-1, 0) : random->Between(-3, 4);
  return std::ldexp(random->Percent(50) ? mantissa : -mantissa, exponent);
}

}  // namespace

std::string ToString(const Call& call) {
  constexpr const char* kKinds[] = {"allreduce", "reducescatter", "allgather", "broadcast", "alltoall", "barrier"};
  constexpr const char* kFills[] = {"small", "any", "special"};
  std::string text = absl::StrCat(kKinds[static_cast<int>(call.kind)], " of ", Name(call.how.dtype));
  if (call.reduces()) {
    absl::StrAppend(&text, " ", Name(call.how.op), " times ", call.how.prescale, " and ", call.how.postscale, ", ",
                    kFills[static_cast<int>(call.fill)]);
  }
  return absl::StrCat(text, ", root ", call.root, ", ", call.pieces, " pieces, counts ",
                      absl::StrJoin(call.counts, " "), call.in_buffer ? ", in the buffer" : "");
}

std::vector<Call> RandomHistory(uint64_t seed, int ranks, int calls, int64_t count_max) {
  Random random(seed * 64 + ranks);
  std::vector<Call> history;
  for (int i = 0; i < calls; ++i) {
    Call call;
    call.seed = random.Next();
    call.in_buffer = random.Percent(50);
    call.root = static_cast<int>(random.Below(ranks));
    call.pieces = random.Percent(50) ? static_cast<int>(random.Between(1, 9)) : 0;
    ChooseReduction(&call, &random);
    const uint64_t kind = random.Below(12);
    call.kind = kind < 5 ? Call::Kind::kAllreduce : static_cast<Call::Kind>(std::min<uint64_t>(kind - 4, 5));
    const bool one = call.kind == Call::Kind::kAllreduce || call.kind == Call::Kind::kBroadcast;
    const int numbers = one ? 1 : call.kind == Call::Kind::kAlltoall ? ranks * ranks : ranks;
    for (int number = 0; number < numbers && call.kind != Call::Kind::kBarrier; ++number) {
      call.counts.push_back(RandomCount(count_max / numbers + 1, &random));
    }
    history.push_back(call);
  }
  return history;
}

std::vector<char> OperandOf(const Call& call, int position, int ranks) {
  int64_t count = std::accumulate(call.counts.begin(), call.counts.end(), int64_t{0});
  if (call.kind == Call::Kind::kAllgather) count = call.counts[position];
  if (call.kind == Call::Kind::kAlltoall) {
    const auto row = call.counts.begin() + position * ranks;
    count = std::accumulate(row, row + ranks, int64_t{0});
  }
  Random random(call.seed + position);
  const DataType dtype = call.how.dtype;
  const int64_t size = SizeOf(dtype);
  std::vector<char> operand(count * size);
  for (int64_t i = 0; i < count; ++i) {
    char* const cell = operand.data() + i * size;
    if (IsInteger(dtype)) {
      WriteInteger(dtype, cell, call.fill == Call::Fill::kSmall ? random.Below(4) : random.Next());
    } else if (call.fill == Call::Fill::kSmall) {
      WriteFloat(dtype, cell, static_cast<double>(random.Between(-3, 3)));
    } else {
      WriteFloat(dtype, cell,
                 call.fill == Call::Fill::kSpecial ? SpecialValue(&random) : AnyValue(call.how.op, &random));
    }
  }
  return operand;
}

}  // namespace farandole::metamorphic
