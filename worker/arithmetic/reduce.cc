#include "worker/arithmetic/reduce.h"

#include <cstdlib>

#include "worker/arithmetic/reduce_avx2.h"
#include "worker/arithmetic/reduce_avx512.h"
#include "worker/arithmetic/reduce_baseline.h"
#include "worker/arithmetic/saturated.h"

namespace farandole::worker::arithmetic {
namespace {

// One element at any address; tells the compiler that it may alias tensors of any type.
template <typename T>
struct __attribute__((packed, may_alias)) Cell {
  T value;
};

template <typename T>
void ScaleIntegers(void* out, const void* in, int64_t count, double factor) {
  auto* o = static_cast<Cell<T>*>(out);
  auto* x = static_cast<const Cell<T>*>(in);
  for (int64_t i = 0; i < count; ++i) o[i].value = Saturated<T>(static_cast<double>(x[i].value) * factor);
}

const ReduceKernels::Table* TableOf(const ReduceKernels& form, const Reduction& how) {
  const int index = static_cast<int>(how.dtype);
  const ReduceKernels::Table* const table = form.Find(how.op);
  return table != nullptr && index >= 0 && index < ReduceKernels::kTypes && table->of[index] != nullptr ? table
                                                                                                        : nullptr;
}

const ReduceKernels& Best() {
  static const ReduceKernels& best = *ReduceForms().back();
  return best;
}

const ReduceKernels::Conversions& ConversionsOf(DataType dtype) {
  if (!IsHalf(dtype)) std::abort();
  return dtype == DataType::kFloat16 ? Best().float16 : Best().bfloat16;
}

}  // namespace

const std::vector<const ReduceKernels*>& ReduceForms() {
  static const auto* const forms = [] {
    auto* const all = new std::vector<const ReduceKernels*>;
    for (const ReduceKernels* form : {BaselineKernels(), Avx2Kernels(), Avx512Kernels()}) {
      if (form != nullptr) all->push_back(form);
    }
    return all;
  }();
  return *forms;
}

bool CanReduce(const Reduction& how) { return TableOf(*BaselineKernels(), how) != nullptr; }

void Combine(const Reduction& how, const Combination& pass) {
  const ReduceKernels::Table* const table = TableOf(Best(), how);
  if (table == nullptr) std::abort();
  table->of[static_cast<int>(how.dtype)](pass);
}

void Reduce2(const Reduction& how, void* out, const void* a, const void* b, int64_t count) {
  const char* const operands[] = {static_cast<const char*>(a), static_cast<const char*>(b)};
  char* const result = static_cast<char*>(out);
  Combine(how, {operands, 2, &result, 1, count});
}

void ScaleResult(const Reduction& how, void* data, int64_t count) {
  if (how.mean == 1 && how.postscale == 1) return;
  char* const operand = static_cast<char*>(data);
  Combine(how, {&operand, 1, &operand, 1, count, 1, how.postscale, how.mean});
}

void ScaleCopy(DataType dtype, void* out, const void* in, int64_t count, double factor) {
  switch (dtype) {
    case DataType::kUint8:
      return ScaleIntegers<uint8_t>(out, in, count, factor);
    case DataType::kInt8:
      return ScaleIntegers<int8_t>(out, in, count, factor);
    case DataType::kUint16:
      return ScaleIntegers<uint16_t>(out, in, count, factor);
    case DataType::kInt16:
      return ScaleIntegers<int16_t>(out, in, count, factor);
    case DataType::kInt32:
      return ScaleIntegers<int32_t>(out, in, count, factor);
    case DataType::kInt64:
      return ScaleIntegers<int64_t>(out, in, count, factor);
    default:
      break;
  }
  const char* const operand = static_cast<const char*>(in);
  char* const result = static_cast<char*>(out);
  Combine(dtype, {&operand, 1, &result, 1, count, factor});
}

void ScaleInPlace(DataType dtype, void* data, int64_t count, double factor) {
  ScaleCopy(dtype, data, data, count, factor);
}

void Widen(DataType dtype, float* out, const void* in, int64_t count) { ConversionsOf(dtype).widen(out, in, count); }

void Narrow(DataType dtype, void* out, const float* in, int64_t count) { ConversionsOf(dtype).narrow(out, in, count); }

}  // namespace farandole::worker::arithmetic
