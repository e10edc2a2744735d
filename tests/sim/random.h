#ifndef FARANDOLE_TESTS_SIM_RANDOM_H_
#define FARANDOLE_TESTS_SIM_RANDOM_H_

#include <cstdint>

namespace farandole::sim {

// splitmix64: the same numbers from the same seed with every standard library.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t Next() {
    uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  // 0 .. bound-1.
  uint64_t Below(uint64_t bound) { return Next() % bound; }
  // least .. greatest.
  int64_t Between(int64_t least, int64_t greatest) {
    return least + static_cast<int64_t>(Below(static_cast<uint64_t>(greatest - least) + 1));
  }
  bool Percent(uint64_t percent) { return Below(100) < percent; }
  // Mostly near `least`, now and then up to `greatest`: how long things last.
  int64_t Skewed(int64_t least, int64_t greatest) {
    int64_t span = greatest - least;
    for (uint64_t halvings = Below(9); halvings > 0 && span > 1; --halvings) span /= 2;
    return Between(least, least + span);
  }

 private:
  uint64_t state_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_RANDOM_H_
