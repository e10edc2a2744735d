#ifndef FARANDOLE_TESTS_SIM_SIMULATION_H_
#define FARANDOLE_TESTS_SIM_SIMULATION_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "tests/sim/random.h"
#include "tests/sim/task.h"

namespace farandole::sim {

// Memory that an event looks at first. Fetched while the event before it runs: what belongs to one of thousands of
// ranks is in no cache.
struct Touched {
  const char* begin = nullptr;
  size_t bytes = 0;
  void Prefetch() const {
    for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch(begin + at);
  }
};

// Time and chance of one run: events in order of time, of equal time in order of their making. Everything a run
// consists of stays allocated until its end, so that events may hold plain pointers.
class Simulation {
 public:
  Simulation(uint64_t seed, bool trace) : random_(seed), trace_(trace) {}

  TimePoint now() const { return now_; }
  Random& random() { return random_; }
  void At(TimePoint when, Task task) { At(when, std::move(task), Touched()); }
  void At(TimePoint when, Task task, Touched touched);
  void AfterUs(int64_t us, Task task) { At(TimePoint(now_.ns() + us * 1000), std::move(task)); }
  // Runs the next event; false if there is none.
  bool Step();

  uint64_t events() const { return events_; }
  // Differs if two runs did not do the same at the same times.
  uint64_t digest() const { return digest_; }
  bool tracing() const { return trace_; }
  // To stderr, with the time; only if tracing().
  void Trace(const std::string& line) const;

  template <typename T>
  T* Keep(std::shared_ptr<T> thing) {
    kept_.push_back(thing);
    return thing.get();
  }

 private:
  // Small, as a heap moves it about; what is to be done stays at its place in tasks_.
  struct Event {
    TimePoint when;
    uint64_t order;
    uint32_t place;
    bool operator<(const Event& o) const { return when == o.when ? o.order < order : o.when < when; }
  };
  TimePoint now_{1000000000};
  Random random_;
  const bool trace_;
  std::deque<std::shared_ptr<void>> kept_;
  std::vector<Event> heap_;
  struct Due {
    Task task;
    Touched touched;
  };
  std::deque<Due> tasks_;
  std::vector<uint32_t> free_;  // places in tasks_
  uint64_t next_order_ = 0;
  uint64_t events_ = 0;
  uint64_t digest_ = 0;
};

// An operating-system process: runs events one at a time, until it is killed; while it is stopped they wait.
class Process {
 public:
  Process(Simulation* simulation, int64_t pid) : pid(pid), simulation_(simulation) {}
  const int64_t pid;

  template <typename F>
  void Run(F&& fn) {
    if (!alive_) return;
    if (stopped_ || continuing_) {
      waiting_.emplace_back(std::forward<F>(fn));
    } else {
      fn();
    }
  }
  template <typename F>
  void AfterUs(int64_t us, F&& fn) {
    At(TimePoint(simulation_->now().ns() + us * 1000), std::forward<F>(fn));
  }
  template <typename F>
  void At(TimePoint when, F&& fn) {
    simulation_->At(
        when, [this, fn = std::forward<F>(fn)]() mutable { Run(std::move(fn)); }, touched_);
  }

  // What its events look at first from now on.
  void Touches(const void* begin, size_t bytes) { touched_ = {static_cast<const char*>(begin), bytes}; }

  void Kill() { alive_ = false; }
  void Stop() { stopped_ = true; }
  void Continue();
  bool alive() const { return alive_; }
  bool stopped() const { return stopped_; }

 private:
  Simulation* const simulation_;
  bool alive_ = true;
  bool stopped_ = false;
  bool continuing_ = false;
  Touched touched_;
  std::deque<Task> waiting_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_SIMULATION_H_
