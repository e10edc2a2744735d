#ifndef FARANDOLE_TESTS_SIM_COVERAGE_H_
#define FARANDOLE_TESTS_SIM_COVERAGE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "controller/job_status.h"
#include "proto/messages.h"
#include "worker/session.h"

namespace farandole::sim {

// Which kinds of events and state transitions happened, and how often. "session JOINING -> MEMBER", "fault kill".
class Coverage {
 public:
  void Hit(const std::string& what) { ++hits_[what]; }
  void Session(Session::State from, Session::State to);
  void Job(JobState from, JobState to);
  void Said(const WorkerUp& message);
  void Said(const AgentUp& message);
  void Said(const WorkerDown& message);
  void Merge(const Coverage& other);

  const std::map<std::string, uint64_t>& hits() const { return hits_; }
  // What a suite has to reach and has not.
  std::vector<std::string> Missing() const;

 private:
  std::map<std::string, uint64_t> hits_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_COVERAGE_H_
