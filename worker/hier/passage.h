#ifndef FARANDOLE_WORKER_HIER_PASSAGE_H_
#define FARANDOLE_WORKER_HIER_PASSAGE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "worker/arithmetic/reduction.h"
#include "worker/collective/piece.h"

namespace farandole::worker::hier {

// The elements of an allreduce on their way through the layers, in the type in which they are summed: one part after
// the other, from the first on, with at most two at a time. Part p + 2 takes the place of part p.
class Passage {
 public:
  virtual ~Passage() = default;
  // Whether the operand's own memory is that of the parts, so that there is nothing to store.
  virtual bool in_place() const = 0;
  // The elements [begin, begin + count), to be summed where they are put.
  virtual char* Load(int64_t begin, int64_t count) = 0;
  // Their sums, wherever they lie: any number at a time, in the same order, all before the next Load of their place.
  virtual void Store(const char* from, int64_t count) = 0;
};

// Of an operand that is summed where it lies.
class PassageInPlace final : public Passage {
 public:
  PassageInPlace(char* data, int64_t element_bytes) : data_(data), element_bytes_(element_bytes) {}
  bool in_place() const override { return true; }
  char* Load(int64_t begin, int64_t count) override { return data_ + begin * element_bytes_; }
  void Store(const char* from, int64_t count) override {}

 private:
  char* const data_;
  const int64_t element_bytes_;
};

// Of tensors at places of their own, which are copied to one of two places and back. 16-bit floats become float32
// meanwhile, and are scaled here.
class PassageByCopies final : public Passage {
 public:
  // `pieces` and both places, of `place_bytes` each, outlive it. `narrow`: for 16-bit floats, half as large as a place.
  PassageByCopies(const arithmetic::Reduction& how, absl::Span<const collective::Piece> pieces, char* places,
                  int64_t place_bytes, char* narrow);
  bool in_place() const override { return false; }
  char* Load(int64_t begin, int64_t count) override;
  void Store(const char* from, int64_t count) override;

 private:
  const arithmetic::Reduction how_;
  const bool half_;
  collective::PieceWalk in_, out_;
  char* const places_;
  const int64_t place_bytes_;
  char* const narrow_;
  int which_ = 0;
};

}  // namespace farandole::worker::hier

#endif  // FARANDOLE_WORKER_HIER_PASSAGE_H_
