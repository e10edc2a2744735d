#include "worker/operation.h"

#include <utility>

namespace farandole {

void Operation::Finish(const Result& result) {
  if (done()) std::abort();
  if (!result.ok()) failure_ = std::make_unique<const Result>(result);
  done_.store(true, std::memory_order_release);
  changed_.Advance();
}

const Result& Operation::result() const {
  static const Result* const kWell = new Result();
  return failure_ != nullptr ? *failure_ : *kWell;
}

bool Operation::Wait(int timeout_ms) {
  if (done()) return true;
  // It advances once, from 0. A signal may end the wait early: the caller looks again.
  changed_.WaitPast(0, timeout_ms);
  return done();
}

}  // namespace farandole
