#ifndef FARANDOLE_PERF_CONTROL_CONTROL_LOAD_H_
#define FARANDOLE_PERF_CONTROL_CONTROL_LOAD_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/completion_thread.h"
#include "base/event_loop.h"
#include "perf/control/load_agent.h"
#include "perf/control/process_sample.h"

namespace farandole::perf::control {

struct ControlLoadOptions {
  std::string controller;  // program
  int ranks = 64;
  int per_agent = 8;
  int steps = 2;
  int tensors = 161;  // the first of a step's
  int skew = 4;       // a rank begins its steps up to so many tensors behind the first
  int hold_ms = 0;    // with nothing to do
  int opening = 64;   // connections at a time
  std::string tls_cert, tls_key;
};

// Names and values, in the order in which they were found.
using Figures = std::vector<std::pair<std::string, double>>;

// A job of many ranks against a farandole-controller of its own: joins, steps, idles, leaves, and says what that cost.
//
//   opening streams --all welcomed, all views--> settling --1 s--> stepping --all done--> holding --> leaving --> over
class ControlLoad {
 public:
  static absl::StatusOr<Figures> Run(const ControlLoadOptions& options);

 private:
  enum class Phase { kOpening, kSettling, kStepping, kHolding, kLeaving, kOver };

  ControlLoad(const ControlLoadOptions& options, pid_t controller);
  absl::StatusOr<Figures> RunPhases();
  // Looks where the run stands, does the next piece of it, and asks to be called again.
  void Next();
  void OpenSome();
  void Round();
  void SayLeases();
  void Enter(Phase phase);
  void Later(int64_t ms);
  void Report(const std::string& name, double value) { figures_.emplace_back(name, value); }
  void ReportJoin();
  void ReportSteps();
  void ReportHold();

  const ControlLoadOptions options_;
  const pid_t controller_;
  EventLoop loop_{"perf"};
  agent::link::Outstanding outstanding_;
  std::unique_ptr<CompletionThread> thread_;
  LoadContext context_;
  std::vector<std::unique_ptr<LoadAgent>> agents_;
  std::vector<int> delays_;  // by rank
  Phase phase_ = Phase::kOpening;
  size_t opened_ = 0;
  int64_t round_ = 0;
  int64_t lease_slot_ = 0;
  // At the beginning of the phase.
  TimePoint since_;
  ProcessSample before_;
  int64_t own_cpu_before_ns_ = 0;
  LoadContext::Counts counts_before_;
  int64_t empty_bytes_ = 0;
  TimePoint all_welcomed_;
  Figures figures_;
};

}  // namespace farandole::perf::control

#endif  // FARANDOLE_PERF_CONTROL_CONTROL_LOAD_H_
