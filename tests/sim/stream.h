#ifndef FARANDOLE_TESTS_SIM_STREAM_H_
#define FARANDOLE_TESTS_SIM_STREAM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>

#include "tests/sim/simulation.h"

namespace farandole::sim {

// How long messages are on their way; order is kept within a pipe and nowhere else.
struct Delay {
  int64_t least_us = 1;
  int64_t greatest_us = 1;
};

// One direction of a stream.
template <typename T>
class Pipe {
 public:
  // Both run on the receiving process.
  std::function<void(T)> on_message;
  std::function<void()> on_closed;

  Pipe(Simulation* simulation, Process* to, Delay delay) : simulation_(simulation), to_(to), delay_(delay) {}

  void Send(T message) {
    if (!open_) return;
    pending_.push_back(std::move(message));
    simulation_->At(Arrival(), [this] { Arrive(); });
  }
  // Nothing sent from now on arrives; what is on its way does unless `lose`. Then the receiver is told.
  void Close(bool lose) {
    if (!open_) return;
    open_ = false;
    lost_ = lose;
    // Behind everything that was held until then.
    simulation_->At(TimePoint(Arrival().ns() + 1), [this] {
      to_->Run([this] {
        if (!muted_ && on_closed != nullptr) on_closed();
      });
    });
  }
  // The receiver has closed its end and hears nothing more.
  void Mute() { muted_ = true; }
  // What is sent from now on arrives then, or later.
  void StallUntil(TimePoint until) { stalled_until_ = until; }
  TimePoint stalled_until() const { return stalled_until_; }
  // What is on its way, too.
  void HoldUntil(TimePoint until) { stalled_until_ = held_until_ = until; }
  // What has arrived, or is about to, is delivered now.
  void Drain() {
    while (!lost_ && !pending_.empty()) DeliverOne();
  }

 private:
  void Arrive() {
    if (lost_) return;
    if (simulation_->now() < held_until_) return simulation_->At(held_until_, [this] { Arrive(); });
    to_->Run([this] { DeliverOne(); });
  }
  TimePoint Arrival() {
    TimePoint when(simulation_->now().ns() + 1000 * simulation_->random().Skewed(delay_.least_us, delay_.greatest_us));
    if (when < stalled_until_) when = stalled_until_;
    if (when < last_) when = last_;
    return last_ = when;
  }
  void DeliverOne() {
    if (pending_.empty()) return;  // drained
    T message = std::move(pending_.front());
    pending_.pop_front();
    if (!muted_) on_message(std::move(message));
  }

  Simulation* const simulation_;
  Process* const to_;
  const Delay delay_;
  std::deque<T> pending_;
  TimePoint last_;
  TimePoint stalled_until_;
  TimePoint held_until_;
  bool open_ = true;
  bool lost_ = false;
  bool muted_ = false;
};

// Both directions between a lower and an upper process. Kept by the simulation until the end of the run.
template <typename Up, typename Down>
class Stream {
 public:
  Stream(Simulation* simulation, Process* lower, Process* upper, Delay delay)
      : up(simulation, upper, delay), down(simulation, lower, delay), simulation_(simulation) {}
  Pipe<Up> up;
  Pipe<Down> down;

  // The network ends it: each direction loses what is on its way, or delivers it, or does so at `late`, when there may
  // be another stream.
  void Break(TimePoint late) {
    if (simulation_->random().Percent(50)) up.HoldUntil(late);
    if (simulation_->random().Percent(20)) down.HoldUntil(late);
    up.Close(simulation_->random().Percent(30));
    down.Close(simulation_->random().Percent(50));
  }
  void CloseFromBelow() {
    down.Mute();
    down.Close(true);
    up.Close(false);
  }
  void CloseFromAbove() {
    up.Mute();
    up.Close(true);
    down.Close(false);
  }

 private:
  Simulation* const simulation_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_STREAM_H_
