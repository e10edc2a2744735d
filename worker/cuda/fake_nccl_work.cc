#include "worker/cuda/fake_nccl_work.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <type_traits>

#include "worker/arithmetic/half.h"

namespace farandole::worker::cuda {
namespace {

// How elements lie in memory, and what they are computed as.
template <typename T>
struct Plain {
  using Stored = T;
  using Value = T;
  static T Load(T stored) { return stored; }
  static T Store(T value) { return value; }
};

struct Float16 {
  using Stored = uint16_t;
  using Value = float;
  static float Load(uint16_t stored) { return arithmetic::FloatFromFloat16(stored); }
  static uint16_t Store(float value) { return arithmetic::Float16FromFloat(value); }
};

struct Bfloat16 {
  using Stored = uint16_t;
  using Value = float;
  static float Load(uint16_t stored) { return arithmetic::FloatFromBfloat16(stored); }
  static uint16_t Store(float value) { return arithmetic::Bfloat16FromFloat(value); }
};

// Calls `with` with the element that belongs to the type.
template <typename With>
void ForType(ncclDataType_t type, With with) {
  switch (type) {
    case ncclInt8:
      return with(Plain<int8_t>());
    case ncclUint8:
      return with(Plain<uint8_t>());
    case ncclInt32:
      return with(Plain<int32_t>());
    case ncclUint32:
      return with(Plain<uint32_t>());
    case ncclInt64:
      return with(Plain<int64_t>());
    case ncclUint64:
      return with(Plain<uint64_t>());
    case ncclFloat16:
      return with(Float16());
    case ncclFloat32:
      return with(Plain<float>());
    case ncclFloat64:
      return with(Plain<double>());
    case ncclBfloat16:
      return with(Bfloat16());
  }
  std::abort();
}

template <typename Element>
typename Element::Value LoadFrom(const void* from) {
  typename Element::Stored stored;
  memcpy(&stored, from, sizeof(stored));
  return Element::Load(stored);
}

template <typename T>
T Add(T one, T other) {
  if constexpr (std::is_floating_point_v<T>) return one + other;
  return static_cast<T>(static_cast<uint64_t>(one) + static_cast<uint64_t>(other));
}

template <typename T>
T Multiply(T one, T other) {
  if constexpr (std::is_floating_point_v<T>) return one * other;
  return static_cast<T>(static_cast<uint64_t>(one) * static_cast<uint64_t>(other));
}

// fmax and fmin leave out what is not a number, as NCCL does.
template <typename T>
T Combine(ncclRedOp_t op, T one, T other) {
  switch (op) {
    case ncclProd:
      return Multiply(one, other);
    case ncclMax:
      if constexpr (std::is_floating_point_v<T>) return std::fmax(one, other);
      return std::max(one, other);
    case ncclMin:
      if constexpr (std::is_floating_point_v<T>) return std::fmin(one, other);
      return std::min(one, other);
    default:
      return Add(one, other);
  }
}

}  // namespace

size_t FakeNcclBytesOf(ncclDataType_t type) {
  size_t bytes = 0;
  ForType(type, [&](auto element) { bytes = sizeof(typename decltype(element)::Stored); });
  return bytes;
}

FakeNcclScalar FakeNcclScalarOf(double value, ncclDataType_t type) {
  FakeNcclScalar scalar;
  ForType(type, [&](auto element) {
    const auto stored = decltype(element)::Store(static_cast<typename decltype(element)::Value>(value));
    memcpy(&scalar.bytes, &stored, sizeof(stored));
  });
  return scalar;
}

void FakeNcclReduce(const FakeNcclReduction& reduction, const std::vector<const char*>& in, char* out, size_t count) {
  ForType(reduction.type, [&](auto element) {
    using Element = decltype(element);
    using Value = typename Element::Value;
    constexpr size_t kBytes = sizeof(typename Element::Stored);
    std::vector<Value> factors;
    for (const FakeNcclScalar& factor : reduction.factors) factors.push_back(LoadFrom<Element>(&factor.bytes));
    const auto load = [&](size_t rank, size_t i) {
      const Value value = LoadFrom<Element>(in[rank] + i * kBytes);
      return factors.empty() ? value : Multiply(value, factors[rank]);
    };
    for (size_t i = 0; i < count; ++i) {
      Value value = load(0, i);
      for (size_t rank = 1; rank < in.size(); ++rank) value = Combine(reduction.op, value, load(rank, i));
      if (reduction.op == ncclAvg) value = static_cast<Value>(value / static_cast<Value>(in.size()));
      const auto stored = Element::Store(value);
      memcpy(out + i * kBytes, &stored, kBytes);
    }
  });
}

}  // namespace farandole::worker::cuda
