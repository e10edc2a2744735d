#include "tests/sim/simulation.h"

#include <algorithm>
#include <cstdio>
#include <utility>

namespace farandole::sim {

void Simulation::At(TimePoint when, Task task, Touched touched) {
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(tasks_.size()));
    tasks_.emplace_back();
  }
  const uint32_t place = free_.back();
  free_.pop_back();
  tasks_[place].task = std::move(task);
  tasks_[place].touched = touched;
  heap_.push_back({when < now_ ? now_ : when, next_order_++, place});
  std::push_heap(heap_.begin(), heap_.end());
}

bool Simulation::Step() {
  if (heap_.empty()) return false;
  std::pop_heap(heap_.begin(), heap_.end());
  const Event event = heap_.back();
  heap_.pop_back();
  now_ = event.when;
  ++events_;
  digest_ = Random(digest_ ^ event.when.ns() ^ (event.order << 40)).Next();
  if (!heap_.empty()) tasks_[heap_.front().place].touched.Prefetch();
  Task& task = tasks_[event.place].task;
  task();
  task.Reset();
  free_.push_back(event.place);
  return true;
}

void Simulation::Trace(const std::string& line) const {
  if (trace_) std::fprintf(stderr, "%12.6f  %s\n", static_cast<double>(now_.ns()) / 1e9 - 1, line.c_str());
}

void Process::Continue() {
  if (!stopped_) return;
  stopped_ = false;
  continuing_ = true;
  while (alive_ && !stopped_ && !waiting_.empty()) {
    Task task = std::move(waiting_.front());
    waiting_.pop_front();
    task();
  }
  continuing_ = false;
}

}  // namespace farandole::sim
