#include "worker/operation.h"

#include <utility>

namespace farandole {

void Operation::Finish(Result result) {
  if (done()) std::abort();
  result_ = std::move(result);
  done_.store(true, std::memory_order_release);
  changed_.Advance();
}

bool Operation::Wait(int timeout_ms) {
  if (done()) return true;
  // It advances once, from 0. A signal may end the wait early: the caller looks again.
  changed_.WaitPast(0, timeout_ms);
  return done();
}

}  // namespace farandole
