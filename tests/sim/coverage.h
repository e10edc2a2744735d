#ifndef FARANDOLE_TESTS_SIM_COVERAGE_H_
#define FARANDOLE_TESTS_SIM_COVERAGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "controller/types/job_status.h"
#include "proto/messages.h"
#include "worker/completion/result.h"
#include "worker/session/session.h"
#include "worker/session/work.h"

namespace farandole::sim {

// Which kinds of events and state transitions happened, and how often. "session JOINING -> MEMBER", "fault kill".
class Coverage {
 public:
  void Hit(const std::string& what) { ++hits_[what]; }
  void Session(worker::session::Session::State from, worker::session::Session::State to);
  void Job(controller::JobState from, controller::JobState to);
  void Submits(WorkerState mode, size_t count) { submits_[static_cast<int>(mode)] += count; }
  void Starts(const worker::session::Work& batch);
  void Answer(worker::completion::Code code) { ++answers_[-static_cast<int>(code)]; }
  void Mode(WorkerState from, WorkerState to);
  // Events of the table in section 3 of docs/replay.md.
  void Worker(WorkerState mode, const char* event);
  void Worker(WorkerState mode, const WorkerDown& message);
  // Events of the table in section 4.
  void Controller(controller::Activity from, controller::Activity to);
  void Controller(controller::JobState state, controller::Activity activity, const WorkerUp& message);
  void Said(const WorkerUp& message);
  void Said(const AgentUp& message);
  void Said(const WorkerDown& message);

  std::map<std::string, uint64_t> hits() const;
  // What a suite has to reach and has not.
  std::vector<std::string> Missing() const;

 private:
  std::map<std::string, uint64_t> hits_;
  uint64_t submits_[3] = {};   // by mode
  uint64_t answers_[16] = {};  // by code
  uint64_t batches_of_several_ = 0;
  uint64_t batches_with_zeros_ = 0;
  uint64_t batches_replayed_ = 0;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_COVERAGE_H_
