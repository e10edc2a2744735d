#include "worker/operation.h"

#include <utility>

namespace farandole {

void Operation::Fail(const Result& result) {
  if (done()) std::abort();
  failure_ = std::make_unique<const Result>(result);
}

const Result& Operation::Well() {
  static const Result* const kWell = new Result();
  return *kWell;
}

bool Operation::Wait(int timeout_ms) {
  if (done()) return true;
  // A signal may end the wait early: the caller looks again.
  finished_.WaitPast(0, timeout_ms);
  return done();
}

}  // namespace farandole
