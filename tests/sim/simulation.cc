#include "tests/sim/simulation.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace farandole::sim {

void Simulation::At(TimePoint when, std::function<void()> fn) {
  heap_.push_back({when < now_ ? now_ : when, next_order_++, std::move(fn)});
  std::push_heap(heap_.begin(), heap_.end());
}

bool Simulation::Step() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end());
  const Event event = std::move(heap_.back());
  heap_.pop_back();
  now_ = event.when;
  ++events_;
  digest_ = Random(digest_ ^ event.when.ns() ^ (event.order << 40)).Next();
  event.fn();
  return true;
}

void Simulation::Trace(const std::string& line) const {
  if (trace_) std::fprintf(stderr, "%12.6f  %s\n", static_cast<double>(now_.ns()) / 1e9 - 1, line.c_str());
}

void Process::Run(std::function<void()> fn) {
  if (!alive_) return;
  if (stopped_ || continuing_) {
    waiting_.push_back(std::move(fn));
  } else {
    fn();
  }
}

void Process::AfterUs(int64_t us, std::function<void()> fn) {
  simulation_->AfterUs(us, [this, fn = std::move(fn)] { Run(fn); });
}

void Process::At(TimePoint when, std::function<void()> fn) {
  simulation_->At(when, [this, fn = std::move(fn)] { Run(fn); });
}

void Process::Continue() {
  if (!stopped_) return;
  stopped_ = false;
  continuing_ = true;
  while (alive_ && !stopped_ && !waiting_.empty()) {
    const std::function<void()> fn = std::move(waiting_.front());
    waiting_.pop_front();
    fn();
  }
  continuing_ = false;
}

}  // namespace farandole::sim
