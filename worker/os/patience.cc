#include "worker/os/patience.h"

#include <sched.h>

#include <algorithm>

namespace farandole::worker::os {
namespace {

constexpr int kSkipMax = 63;

}  // namespace

void Patience::GiveWay() { sched_yield(); }

bool Patience::Worthwhile() {
  if (!enabled_.load(std::memory_order_relaxed)) return false;
  const int skip = skip_.load(std::memory_order_relaxed);
  if (skip == 0) return true;
  skip_.store(skip - 1, std::memory_order_relaxed);
  return false;
}

void Patience::InTime() { skip_next_.store(1, std::memory_order_relaxed); }

void Patience::InVain() {
  const int skip = skip_next_.load(std::memory_order_relaxed);
  skip_.store(skip, std::memory_order_relaxed);
  skip_next_.store(std::min(2 * skip + 1, kSkipMax), std::memory_order_relaxed);
}

}  // namespace farandole::worker::os
