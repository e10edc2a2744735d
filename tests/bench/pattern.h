#ifndef FARANDOLE_TESTS_BENCH_PATTERN_H_
#define FARANDOLE_TESTS_BENCH_PATTERN_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "worker/arithmetic/half.h"

namespace farandole::bench {

// Operands that differ from cell to cell, from rank to rank and from call to call, written and checked at the speed of
// memory: small integers that repeat themselves after a prime number of cells, so that what lands in another place, of
// a power of two or not, is found. Sums of 8 ranks are exact in float32, of 2 ranks in the 16-bit types.
// patterns.py writes the same.
class Pattern {
 public:
  Pattern(const std::string& dtype, int rank, int size)
      : half_(dtype == "float16"), element_(dtype == "float32" ? 4 : 2), rank_(rank), size_(size) {
    for (int i = 0; i < kBlock + kPeriod; ++i) Append(&own_, static_cast<float>(i % kPeriod));
  }

  int64_t element_bytes() const { return element_; }

  void Fill(char* data, int64_t bytes, int64_t call) const {
    const char* const from = own_.data() + Phase(rank_, call) * element_;
    for (int64_t at = 0; at < bytes; at += BlockBytes()) {
      std::memcpy(data + at, from, std::min(BlockBytes(), bytes - at));
    }
  }

  // True if every cell holds the sum over all ranks.
  bool IsSum(const char* data, int64_t bytes, int64_t call) const {
    std::vector<char> sums;
    const int64_t cells = std::min<int64_t>(kBlock, bytes / element_);
    sums.reserve(cells * element_);
    for (int64_t i = 0; i < cells; ++i) {
      int sum = 0;
      for (int rank = 0; rank < size_; ++rank) sum += static_cast<int>((Phase(rank, call) + i) % kPeriod);
      Append(&sums, static_cast<float>(sum));
    }
    for (int64_t at = 0; at < bytes; at += BlockBytes()) {
      if (std::memcmp(data + at, sums.data(), std::min(BlockBytes(), bytes - at)) != 0) return false;
    }
    return true;
  }

 private:
  static constexpr int kPeriod = 61;
  static constexpr int kBlock = 64 * kPeriod;

  static int Phase(int rank, int64_t call) { return static_cast<int>((rank * 17 + call * 5) % kPeriod); }
  int64_t BlockBytes() const { return kBlock * element_; }

  void Append(std::vector<char>* cells, float value) const {
    const uint16_t narrow =
        half_ ? worker::arithmetic::Float16FromFloat(value) : worker::arithmetic::Bfloat16FromFloat(value);
    const char* const bits =
        element_ == 4 ? reinterpret_cast<const char*>(&value) : reinterpret_cast<const char*>(&narrow);
    cells->insert(cells->end(), bits, bits + element_);
  }

  const bool half_;
  const int64_t element_;
  const int rank_, size_;
  std::vector<char> own_;
};

}  // namespace farandole::bench

#endif  // FARANDOLE_TESTS_BENCH_PATTERN_H_
