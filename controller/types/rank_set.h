#ifndef FARANDOLE_CONTROLLER_TYPES_RANK_SET_H_
#define FARANDOLE_CONTROLLER_TYPES_RANK_SET_H_

#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "proto/types.h"

namespace farandole::controller {

// A set of known ranks; no allocation up to rank 127. Ranks that are not known, or beyond any job, are never members.
class RankSet {
 public:
  static constexpr int32_t kRanksMax = 65536;

  // False if it is a member already, or cannot be one.
  bool Add(Rank rank) {
    if (!CanHave(rank)) return false;
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
  void Clear() {
    words_.clear();
    count_ = 0;
  }
  bool Contains(Rank rank) const {
    if (!CanHave(rank)) return false;
    const size_t word = rank.value() / 64;
    return word < words_.size() && (words_[word] & Bit(rank)) != 0;
  }
  // Ranks 0 .. size-1.
  static RankSet All(int32_t size) {
    RankSet set;
    set.words_.assign((size + 63) / 64, ~uint64_t{0});
    if (size % 64 != 0) set.words_.back() = (uint64_t{1} << (size % 64)) - 1;
    set.count_ = size;
    return set;
  }
  void AddAll(const RankSet& o) {
    if (o.words_.size() > words_.size()) words_.resize(o.words_.size(), 0);
    count_ = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      if (i < o.words_.size()) words_[i] |= o.words_[i];
      count_ += __builtin_popcountll(words_[i]);
    }
  }
  void RemoveAll(const RankSet& o) { Mask(o, ~uint64_t{0}); }
  void KeepOnly(const RankSet& o) { Mask(o, 0); }
  bool Intersects(const RankSet& o) const {
    for (size_t i = 0; i < words_.size() && i < o.words_.size(); ++i) {
      if ((words_[i] & o.words_[i]) != 0) return true;
    }
    return false;
  }
  // How many members are in `among` and not in `without`.
  int CountIn(const RankSet& among, const RankSet& without) const {
    int count = 0;
    for (size_t i = 0; i < words_.size() && i < among.words_.size(); ++i) {
      const uint64_t less = i < without.words_.size() ? without.words_[i] : 0;
      count += __builtin_popcountll(words_[i] & among.words_[i] & ~less);
    }
    return count;
  }
  int count() const { return count_; }
  bool empty() const { return count_ == 0; }
  // In rising order.
  std::vector<Rank> ToVector() const {
    std::vector<Rank> ranks;
    ranks.reserve(count_);
    for (size_t word = 0; word < words_.size(); ++word) {
      for (uint64_t left = words_[word]; left != 0; left &= left - 1) {
        ranks.push_back(Rank(static_cast<int32_t>(word * 64) + __builtin_ctzll(left)));
      }
    }
    return ranks;
  }
  // The first `max` ranks below `size` that are no members, in rising order, without the first `skip` of them.
  std::vector<Rank> Absent(int32_t size, int64_t skip, size_t max) const {
    std::vector<Rank> ranks;
    for (int32_t base = 0; base < size && ranks.size() < max; base += 64) {
      const size_t word = base / 64;
      uint64_t absent = word < words_.size() ? ~words_[word] : ~uint64_t{0};
      if (size - base < 64) absent &= (uint64_t{1} << (size - base)) - 1;
      const int count = __builtin_popcountll(absent);
      if (count <= skip) {
        skip -= count;
        continue;
      }
      for (; absent != 0 && ranks.size() < max; absent &= absent - 1) {
        if (skip-- <= 0) ranks.push_back(Rank(base + __builtin_ctzll(absent)));
      }
      skip = 0;
    }
    return ranks;
  }
  bool operator==(const RankSet& o) const {
    if (count_ != o.count_) return false;
    // With as many members on both sides it is enough that none of these is missing there.
    for (size_t i = 0; i < words_.size(); ++i) {
      if ((words_[i] & ~(i < o.words_.size() ? o.words_[i] : 0)) != 0) return false;
    }
    return true;
  }

 private:
  static bool CanHave(Rank rank) { return rank.known() && rank.value() < kRanksMax; }
  static uint64_t Bit(Rank rank) { return uint64_t{1} << (rank.value() % 64); }

  // Keeps what is in `o`, or with all bits `inverted` what is not.
  void Mask(const RankSet& o, uint64_t inverted) {
    count_ = 0;
    for (size_t i = 0; i < words_.size(); ++i) {
      words_[i] &= (i < o.words_.size() ? o.words_[i] : 0) ^ inverted;
      count_ += __builtin_popcountll(words_[i]);
    }
  }

  absl::InlinedVector<uint64_t, 2> words_;
  int count_ = 0;
};

}  // namespace farandole::controller

#endif  // FARANDOLE_CONTROLLER_TYPES_RANK_SET_H_
