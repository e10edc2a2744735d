#ifndef FARANDOLE_WORKER_ARITHMETIC_REDUCE_LOOPS_H_
#define FARANDOLE_WORKER_ARITHMETIC_REDUCE_LOOPS_H_

#include <cstdint>
#include <cstring>

#include "worker/arithmetic/reduce_kernels.h"
#include "worker/arithmetic/reduce_lanes.h"

// The passes of reduce_kernels.h, written once in vectors of the compiler and compiled for an instruction set by each
// file that includes this: after its #pragma GCC target, with a Form of an unnamed namespace, so that none of these
// functions can stand in for those of another file. Form has
//   kBytes                        of a vector
//   FromFloat16, ToFloat16        Vector<uint16_t, kBytes / 2> to and from Vector<float, kBytes>
//   Stream(to, Vector<uint8_t>)   a store past the caches, to an aligned address, of kBytes and of kBytes / 2
//   Fence()                       after such stores, before others are told
//   LoadPart<V>(from, bytes), StorePart(to, V, bytes)   of less than a vector; touches no other byte
//   Pin(vector*)                  a rounding before it is not to be optimised away
namespace farandole::worker::arithmetic {
namespace reduce_loops {

// The pass over lanes of kind L.
template <typename Form, typename L, Combining kHow>
class Pass {
 public:
  static void Run(const Combination& c) {
    const Pass pass(c);
    const int64_t bytes = c.count * static_cast<int64_t>(sizeof(typename L::Element));
    int64_t at = 0;
    // Also for plain stores: one that crosses a line takes two.
    const bool aligned = bytes >= kAlignedBytesMin && pass.Align(bytes, &at);
    const bool stream = c.stream && aligned;
    if (c.operand_count > kOperandsAtOnce) {
      at = pass.Deep(at, bytes);
    } else if (kOften && c.operand_count == 2 && c.result_count == 2) {
      at = pass.template Pair<2>(at, bytes, false);
    } else if (kOften && c.operand_count == 2 && c.result_count == 1) {
      at = pass.template Pair<1>(at, bytes, stream);
    } else {
      at = pass.template Any<4>(at, bytes, stream);
      at = pass.template Any<1>(at, bytes, stream);
    }
    if (at < bytes) pass.Part(at, bytes - at);
    if (stream) Form::Fence();
  }

 private:
  using Stored = typename L::Stored;
  using Lanes = decltype(L::Wide(Stored()));
  static constexpr int64_t kStep = sizeof(Stored);
  // Sums of two operands have loops of their own.
  static constexpr bool kOften = kHow == Combining::kAdd;
  // Streams of memory that are followed side by side; beyond them sums of a piece wait in the first-level cache.
  static constexpr int kOperandsAtOnce = 12;
  static constexpr int kPieceSteps = 8192 / sizeof(Lanes);
  // Below that the way to an aligned place costs more than it saves.
  static constexpr int64_t kAlignedBytesMin = 16 * kStep;
  // How far ahead operands are asked for that do not lie in the near caches. A core that also converts has too few
  // loads under way by itself to keep the memory busy: 16-bit types went 1.2 times as fast with it (reduce_bench).
  static constexpr int64_t kAhead = 2048;
  static constexpr int64_t kAheadBytesMin = 128 << 10;

  explicit Pass(const Combination& c) : c_(c), factors_(c) {}

  FARANDOLE_INLINE Lanes Operand(const char* from) const {
    return L::Prescaled(L::Wide(LoadVector<Stored>(from)), factors_);
  }

  static FARANDOLE_INLINE void Store(char* to, Stored value, bool stream = false) {
    if (stream) {
      Form::Stream(to, (Vector<uint8_t, sizeof(Stored)>)value);
    } else {
      __builtin_memcpy(to, &value, sizeof value);
    }
  }

  // Takes what lies before the first place at which all results are aligned; false: there is none, nothing was done.
  bool Align(int64_t bytes, int64_t* at) const {
    const int64_t head = -reinterpret_cast<intptr_t>(c_.results[0]) & (kStep - 1);
    if (head >= bytes || head % static_cast<int64_t>(sizeof(typename L::Element)) != 0) return false;
    for (int i = 1; i < c_.result_count; ++i) {
      if ((reinterpret_cast<intptr_t>(c_.results[i]) + head) % kStep != 0) return false;
    }
    if (head > 0) Part(0, head);
    *at = head;
    return true;
  }

  // From `at` on as many vectors as lie before `end`; where it stopped. Two operands, one or two results.
  template <int kResults>
  int64_t Pair(int64_t at, int64_t end, bool stream) const {
    return end >= kAheadBytesMin ? PairLoop<kResults, true>(at, end, stream)
                                 : PairLoop<kResults, false>(at, end, stream);
  }

  template <int kResults, bool kFetchAhead>
  FARANDOLE_INLINE int64_t PairLoop(int64_t at, int64_t end, bool stream) const {
    const char* const first = c_.operands[0];
    const char* const second = c_.operands[1];
    char* const result = c_.results[0];
    char* const other = kResults == 2 ? c_.results[1] : nullptr;
    const typename L::Factors factors = factors_;
    for (; at + kStep <= end; at += kStep) {
      if constexpr (kFetchAhead) {  // also beyond the end: no fault comes of it
        __builtin_prefetch(first + at + kAhead);
        __builtin_prefetch(second + at + kAhead);
      }
      const Lanes value = Combine<kHow, L>(L::Prescaled(L::Wide(LoadVector<Stored>(first + at)), factors),
                                           L::Prescaled(L::Wide(LoadVector<Stored>(second + at)), factors));
      const Stored stored = L::Narrow(L::Postscaled(value, factors));
      Store(result + at, stored, stream);
      if constexpr (kResults == 2) Store(other + at, stored, stream);
    }
    return at;
  }

  // The same for any numbers of them, kAbreast vectors side by side. Unrolled, or they would not stay in registers.
  template <int kAbreast>
  FARANDOLE_INLINE int64_t Any(int64_t at, int64_t end, bool stream) const {
    const typename L::Factors factors = factors_;
    const auto operand = [&](const char* from) { return L::Prescaled(L::Wide(LoadVector<Stored>(from)), factors); };
    for (; at + kAbreast * kStep <= end; at += kAbreast * kStep) {
      Lanes values[kAbreast];
      const char* const first = c_.operands[0] + at;
#pragma GCC unroll 8
      for (int k = 0; k < kAbreast; ++k) values[k] = operand(first + k * kStep);
      for (int i = 1; i < c_.operand_count; ++i) {
        const char* const next = c_.operands[i] + at;
#pragma GCC unroll 8
        for (int k = 0; k < kAbreast; ++k) values[k] = Combine<kHow, L>(values[k], operand(next + k * kStep));
      }
      Stored stored[kAbreast];
#pragma GCC unroll 8
      for (int k = 0; k < kAbreast; ++k) stored[k] = L::Narrow(L::Postscaled(values[k], factors));
      for (int i = 0; i < c_.result_count; ++i) {
        char* const result = c_.results[i] + at;
#pragma GCC unroll 8
        for (int k = 0; k < kAbreast; ++k) Store(result + k * kStep, stored[k], stream);
      }
    }
    return at;
  }

  // The same for many operands, piece by piece.
  int64_t Deep(int64_t at, int64_t end) const {
    Lanes sums[kPieceSteps];
    while (at + kStep <= end) {
      const int64_t left = (end - at) / kStep;
      const int steps = left < kPieceSteps ? static_cast<int>(left) : kPieceSteps;
      for (int s = 0; s < steps; ++s) sums[s] = Operand(c_.operands[0] + at + s * kStep);
      for (int i = 1; i < c_.operand_count; ++i) {
        const char* const operand = c_.operands[i] + at;
        for (int s = 0; s < steps; ++s) sums[s] = Combine<kHow, L>(sums[s], Operand(operand + s * kStep));
      }
      char* const result = c_.results[0] + at;
      for (int s = 0; s < steps; ++s) Store(result + s * kStep, L::Narrow(L::Postscaled(sums[s], factors_)));
      for (int i = 1; i < c_.result_count; ++i) std::memcpy(c_.results[i] + at, result, steps * kStep);
      at += steps * kStep;
    }
    return at;
  }

  // `bytes` of less than a vector.
  void Part(int64_t at, int64_t bytes) const {
    const auto operand = [&](int i) {
      const Stored value = Form::template LoadPart<Stored>(c_.operands[i] + at, bytes);
      return L::Prescaled(L::Wide(value), factors_);
    };
    Lanes value = operand(0);
    for (int i = 1; i < c_.operand_count; ++i) value = Combine<kHow, L>(value, operand(i));
    const Stored stored = L::Narrow(L::Postscaled(value, factors_));
    for (int i = 0; i < c_.result_count; ++i) Form::StorePart(c_.results[i] + at, stored, bytes);
  }

  const Combination& c_;
  const typename L::Factors factors_;
};

template <typename Form, typename L>
struct ToFloat32 {
  using In = Vector<uint16_t, Form::kBytes / 2>;
  static FARANDOLE_INLINE Vector<float, Form::kBytes> Of(In value) { return L::Widened(value); }
};
template <typename Form, typename L>
struct ToHalf {
  using In = Vector<float, Form::kBytes>;
  static FARANDOLE_INLINE Vector<uint16_t, Form::kBytes / 2> Of(In value) { return L::Halved(value); }
};

template <typename To, typename Out, typename In>
void Convert(Out* out, const In* in, int64_t count) {
  using Read = typename To::In;
  using Written = decltype(To::Of(Read()));
  constexpr int kLanes = sizeof(Read) == sizeof(Written) * 2 ? sizeof(Read) / 4 : sizeof(Read) / 2;
  const char* from = reinterpret_cast<const char*>(in);
  char* to = reinterpret_cast<char*>(out);
  for (; count >= kLanes; count -= kLanes, from += sizeof(Read), to += sizeof(Written)) {
    const Written value = To::Of(LoadVector<Read>(from));
    __builtin_memcpy(to, &value, sizeof value);
  }
  if (count <= 0) return;
  Read rest = {};
  std::memcpy(&rest, from, count * sizeof(rest[0]));
  const Written value = To::Of(rest);
  std::memcpy(to, &value, count * sizeof(value[0]));
}

template <typename Form, Combining kHow>
void RunFloat32(const Combination& c) {
  // Volatile: GCC 12 drops the rounding of several at once when it makes vectors of them.
  const volatile float mean = static_cast<float>(c.mean);
  const bool one_behind = c.mean == 1 || (c.postscale == 1 && mean == c.mean);
  if (one_behind) return Pass<Form, Floats<Form, float>, kHow>::Run(c);
  Pass<Form, SteppedFloats<Form>, kHow>::Run(c);
}

template <typename Form, Combining kHow>
void RunFloat64(const Combination& c) {
  const bool one_behind = c.mean == 1 || c.postscale == 1;
  if (one_behind) return Pass<Form, Floats<Form, double>, kHow>::Run(c);
  Pass<Form, SteppedDoubles<Form>, kHow>::Run(c);
}

template <typename Form, Combining kHow, typename Half>
void RunHalves(const Combination& c) {
  if (c.prescale == 1 && c.postscale == 1) return Pass<Form, Half, kHow>::Run(c);
  Pass<Form, Stepped<Half>, kHow>::Run(c);
}

template <typename Form, Combining kHow, typename L>
constexpr ReduceKernels::Combine RunOf() {
  return &Pass<Form, L, kHow>::Run;
}

// In the order of DataType. `kOfBools`: how truth values combine, which are bytes of 0 and 1; a sum of more than 255 of
// these would not fit.
template <typename Form, Combining kHow, Combining kOfBools>
constexpr ReduceKernels::Table MakeTable() {
  return {{RunOf<Form, kHow, Integers<Form, uint8_t>>(), RunOf<Form, kHow, Integers<Form, int8_t>>(),
           RunOf<Form, kHow, Integers<Form, uint16_t>>(), RunOf<Form, kHow, Integers<Form, int16_t>>(),
           RunOf<Form, kHow, Integers<Form, int32_t>>(), RunOf<Form, kHow, Integers<Form, int64_t>>(),
           &RunHalves<Form, kHow, Float16s<Form>>, &RunFloat32<Form, kHow>, &RunFloat64<Form, kHow>,
           RunOf<Form, kOfBools, Integers<Form, uint8_t>>(), &RunHalves<Form, kHow, Bfloat16s<Form>>}};
}

template <typename Form>
constexpr ReduceKernels MakeKernels(const char* name) {
  return {name,
          MakeTable<Form, Combining::kAdd, Combining::kGreatest>(),
          MakeTable<Form, Combining::kLeast, Combining::kLeast>(),
          MakeTable<Form, Combining::kGreatest, Combining::kGreatest>(),
          MakeTable<Form, Combining::kMultiply, Combining::kLeast>(),
          {&Convert<ToFloat32<Form, Float16s<Form>>>, &Convert<ToHalf<Form, Float16s<Form>>>},
          {&Convert<ToFloat32<Form, Bfloat16s<Form>>>, &Convert<ToHalf<Form, Bfloat16s<Form>>>}};
}

}  // namespace reduce_loops
}  // namespace farandole::worker::arithmetic

#endif  // FARANDOLE_WORKER_ARITHMETIC_REDUCE_LOOPS_H_
