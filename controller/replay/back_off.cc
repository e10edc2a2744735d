#include "controller/replay/back_off.h"

#include <algorithm>

namespace farandole::controller::replay {
namespace {

constexpr uint32_t kFirst = 3;
constexpr uint32_t kMost = 3072;
constexpr uint64_t kShort = 10;
constexpr uint64_t kLong = 100;
constexpr size_t kTrustedMax = 8;

}  // namespace

uint32_t BackOff::Need(uint64_t digest) const {
  const auto it = need_.find(digest);
  // With that many withdrawn, the next one is not worth a try either.
  if (it == need_.end()) return order_.size() < kPeriodsMax ? kFirst : kNever;
  return it->second;
}

uint32_t* BackOff::Remember(uint64_t digest) {
  const auto known = need_.find(digest);
  if (known != need_.end()) {
    order_.erase(std::find(order_.begin(), order_.end(), digest));
  } else if (order_.size() + 1 >= kPeriodsMax) {
    const auto oldest = std::find_if(order_.begin(), order_.end(), [this](uint64_t d) { return need_[d] != kNever; });
    if (oldest != order_.end()) {
      Trust(*oldest, false);
      need_.erase(*oldest);
      order_.erase(oldest);
    }
  }
  order_.push_back(digest);
  return &need_.emplace(digest, kFirst).first->second;
}

void BackOff::Trust(uint64_t digest, bool trusted) {
  trusted_.erase(std::remove(trusted_.begin(), trusted_.end(), digest), trusted_.end());
  if (!trusted) return;
  if (trusted_.size() == kTrustedMax) trusted_.erase(trusted_.begin());
  trusted_.push_back(digest);
}

void BackOff::Broke(uint64_t digest, uint64_t repetitions) {
  uint32_t* need = Remember(digest);
  if (*need == kNever) return;
  if (repetitions >= kLong) {
    *need = 1;
  } else if (repetitions < kShort) {
    *need = *need == 1 ? kFirst : std::min(kMost, *need * 2);
  }
  Trust(digest, *need == 1);
}

void BackOff::Withdrawn(uint64_t digest) {
  *Remember(digest) = kNever;
  Trust(digest, false);
}

}  // namespace farandole::controller::replay
