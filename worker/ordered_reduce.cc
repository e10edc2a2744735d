#include "worker/ordered_reduce.h"

#include <algorithm>
#include <cstring>

#include "worker/reduce.h"

namespace farandole {
namespace {

// A piece of the result, and one operand of it where that has to be converted, stay in a first-level cache of 32 KiB
// while the operands stream past.
constexpr int64_t kPieceBytes = 8192;

void Scale(DataType dtype, void* out, const void* in, int64_t count, double factor) {
  if (factor != 1) return ScaleCopy(dtype, out, in, count, factor);
  if (out != in) std::memcpy(out, in, count * SizeOf(dtype));
}

// Whether an operand has to be converted or scaled before it is combined, or the combination before it is stored. Two
// 16-bit floats are combined in float32 and rounded once by the plain combination, too.
bool IsPlain(const Reduction& how, size_t operands) { return !how.scales() && (!IsHalf(how.dtype) || operands <= 2); }

// `out` = combination of one piece; the same address as source 0, or apart from all of them.
void ReducePlain(const Reduction& how, absl::Span<const char* const> sources, int64_t offset, char* out,
                 int64_t count) {
  if (sources.size() == 1) return Scale(how.dtype, out, sources[0] + offset, count, 1);
  Reduce2(how, out, sources[0] + offset, sources[1] + offset, count);
  for (size_t i = 2; i < sources.size(); ++i) Reduce(how, out, sources[i] + offset, count);
}

void ReduceScaled(const Reduction& how, absl::Span<const char* const> sources, int64_t offset, char* out,
                  int64_t count) {
  alignas(64) char scaled[kPieceBytes];
  Scale(how.dtype, out, sources[0] + offset, count, how.prescale);
  for (size_t i = 1; i < sources.size(); ++i) {
    Scale(how.dtype, scaled, sources[i] + offset, count, how.prescale);
    Reduce(how, out, scaled, count);
  }
  Scale(how.dtype, out, out, count, how.postscale);
}

void ReduceHalves(const Reduction& how, absl::Span<const char* const> sources, int64_t offset, char* out,
                  int64_t count) {
  constexpr DataType kWide = DataType::kFloat32;
  const Reduction wide(kWide, how.op);
  // The product in double of two float32 values is exact, so that it is rounded as in float32.
  const float prescale = static_cast<float>(how.prescale), postscale = static_cast<float>(how.postscale);
  alignas(64) float sum[kPieceBytes / sizeof(float)], operand[kPieceBytes / sizeof(float)];
  Widen(how.dtype, sum, sources[0] + offset, count);
  Scale(kWide, sum, sum, count, prescale);
  for (size_t i = 1; i < sources.size(); ++i) {
    Widen(how.dtype, operand, sources[i] + offset, count);
    Scale(kWide, operand, operand, count, prescale);
    Reduce(wide, sum, operand, count);
  }
  Scale(kWide, sum, sum, count, postscale);
  Narrow(how.dtype, out, sum, count);
}

void ReducePiece(const Reduction& how, absl::Span<const char* const> sources, int64_t offset, char* out,
                 int64_t count) {
  if (IsPlain(how, sources.size())) return ReducePlain(how, sources, offset, out, count);
  if (IsHalf(how.dtype)) return ReduceHalves(how, sources, offset, out, count);
  ReduceScaled(how, sources, offset, out, count);
}

// In elements: of a type, or of float32 for what is widened.
int64_t PieceOf(DataType dtype) { return kPieceBytes / std::max<int64_t>(SizeOf(dtype), sizeof(float)); }

}  // namespace

void OrderedReduce(const Reduction& how, absl::Span<const char* const> sources, char* out, int64_t count) {
  const int64_t size = SizeOf(how.dtype);
  const bool whole = sources.size() <= 2 && IsPlain(how, sources.size());
  const int64_t piece = whole ? count : PieceOf(how.dtype);
  for (int64_t at = 0; at < count; at += piece) {
    ReducePiece(how, sources, at * size, out + at * size, std::min(piece, count - at));
  }
}

void OrderedReduceToAll(const Reduction& how, absl::Span<char* const> operands, int64_t count) {
  if (operands.size() == 1 && !how.scales()) return;
  const int64_t size = SizeOf(how.dtype), piece = PieceOf(how.dtype);
  const absl::Span<const char* const> sources(operands.data(), operands.size());
  for (int64_t at = 0; at < count; at += piece) {
    const int64_t n = std::min(piece, count - at), offset = at * size;
    char* const first = operands[0] + offset;
    ReducePiece(how, sources, offset, first, n);
    for (size_t i = 1; i < operands.size(); ++i) std::memcpy(operands[i] + offset, first, n * size);
  }
}

}  // namespace farandole
