#ifndef FARANDOLE_CONTROLLER_RANK_SET_H_
#define FARANDOLE_CONTROLLER_RANK_SET_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "proto/types.h"

namespace farandole {

// A set of known ranks; no allocation up to rank 127.
class RankSet {
 public:
  // False if it is a member already.
  bool Add(Rank rank) {
    const size_t word = rank.value() / 64;
    if (word >= words_.size()) words_.resize(word + 1, 0);
    if ((words_[word] & Bit(rank)) != 0) return false;
    words_[word] |= Bit(rank);
    ++count_;
    return true;
  }
  // False if it is no member.
  bool Remove(Rank rank) {
    if (!Contains(rank)) return false;
    words_[rank.value() / 64] &= ~Bit(rank);
    --count_;
    return true;
  }
  bool Contains(Rank rank) const {
    const size_t word = rank.value() / 64;
    return word < words_.size() && (words_[word] & Bit(rank)) != 0;
  }
  int count() const { return count_; }
  bool empty() const { return count_ == 0; }
  // In rising order.
  std::vector<Rank> ToVector() const {
    std::vector<Rank> ranks;
    ranks.reserve(count_);
    for (int32_t r = 0; r < static_cast<int32_t>(words_.size() * 64); ++r) {
      if (Contains(Rank(r))) ranks.push_back(Rank(r));
    }
    return ranks;
  }
  bool operator==(const RankSet& o) const { return count_ == o.count_ && ToVector() == o.ToVector(); }

 private:
  static uint64_t Bit(Rank rank) { return uint64_t{1} << (rank.value() % 64); }

  absl::InlinedVector<uint64_t, 2> words_;
  int count_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_RANK_SET_H_
