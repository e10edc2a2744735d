#ifndef FARANDOLE_CONTROLLER_JOB_JOB_H_
#define FARANDOLE_CONTROLLER_JOB_JOB_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "controller/types/actions.h"
#include "controller/types/job_config.h"
#include "controller/types/job_status.h"
#include "proto/messages.h"

namespace farandole::controller::job {

// One job: its members, what is ready, what is executed next. Pure: no thread, no I/O, no clock of its own. The same
// code runs in the server, inside a lone process and in the simulator. Takes what agents say to whom it concerns:
// AgentTable (who is heard), Joining (who wants to take part), Registration (what an earlier controller opened) and
// Generation (who takes part), which holds Roster, Sequencer and KeyStore.
//
//   GATHERING --all ranks said Hello--> RUNNING --all have left--> GATHERING
//                                          |--a member died, data plane failed--> FAILED
//   FAILED --every old member ended, left or was refused--> GATHERING
class Job {
 public:
  Job(std::string name, JobConfig config);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // An agent's stream opened (again): its workers say Hello by themselves. `hello` has passed the version check.
  Actions AgentConnected(const AgentHello& hello, TimePoint now);
  // Its stream is gone: suspicion, not death.
  Actions AgentDisconnected(const std::string& agent_id, TimePoint now);
  Actions AgentSaid(const std::string& agent_id, const AgentUp& message, TimePoint now);
  // Whoever drives the job has not run for so long: that was nobody's silence.
  void StoodStill(int64_t ms, TimePoint now);
  // Call at NextDeadline() or later; earlier is harmless.
  Actions Tick(TimePoint now);
  TimePoint NextDeadline() const;

  // Generation-scoped keys. Put: ALREADY_EXISTS, FAILED_PRECONDITION, RESOURCE_EXHAUSTED. Find: NOT_FOUND when it may
  // still come, FAILED_PRECONDITION when the generation is over.
  // `shared_elsewhere`: shared_key_bytes() of the other parts of this job, which have one bound together.
  absl::Status Put(const GenerationId& generation, const std::string& key, const std::string& value,
                   size_t shared_elsewhere = 0);
  absl::StatusOr<std::string> Find(const GenerationId& generation, const std::string& key) const;

  // What its keys take beyond the share of its members (KeyStore).
  size_t shared_key_bytes() const;

  JobStatus Status(TimePoint now) const;
  // True when no agent is connected and no member is left: the server may forget the job.
  bool Idle() const;
  // Agents that are connected, or whose workers are members or may be: one that is out of reach may come back.
  size_t agents() const;
  bool HasAgent(const std::string& agent_id) const;
  // Number of the newest one.
  uint64_t last_generation() const;
  FinishedRun finished() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace farandole::controller::job

#endif  // FARANDOLE_CONTROLLER_JOB_JOB_H_
