#ifndef FARANDOLE_CONTROLLER_JOB_H_
#define FARANDOLE_CONTROLLER_JOB_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "controller/job_status.h"
#include "proto/messages.h"

namespace farandole {

// What a controller is told when it starts. Times in milliseconds, sizes in bytes.
struct JobConfig {
  uint64_t controller_incarnation = 0;
  uint32_t lease_interval_ms = 1000;
  // Silence of an agent after which its workers are unresponsive, and after which they are given up.
  uint32_t suspect_after_ms = 3000;
  uint32_t give_up_after_ms = 30000;
  // After a report that a connection broke: how long to wait for evidence of a death that names the culprit.
  uint32_t evidence_wait_ms = 1000;
  // Tensors that are ready together go out together up to this size; 0 = each alone.
  int64_t fusion_threshold_bytes = 128 << 20;
  // Items that not all concerned have received; no further one is sent while there are so many (rule C11).
  uint32_t unstable_items_max = 4096;
  int32_t size_max = 65536;
  // 32 fresh random bytes on each call; injected so that tests and the simulator are deterministic.
  std::function<std::string()> new_data_key;
};

struct Send {
  std::string agent_id;
  AgentDown message;
};

// Outcome of one step: what to send, in this order, and one sentence for the log that says why ("" = nothing happened
// that a person would ask about).
struct Actions {
  std::vector<Send> sends;
  std::string reason;
};

// One job: its members, what is ready, what is executed next. Pure: no thread, no I/O, no clock of its own. The same
// code runs in the server, inside a lone process and in the simulator. Composed of Membership, Negotiator, Batcher and
// Log.
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
  // Call at NextDeadline() or later; earlier is harmless.
  Actions Tick(TimePoint now);
  TimePoint NextDeadline() const;

  // Generation-scoped keys. Put: ALREADY_EXISTS, FAILED_PRECONDITION, RESOURCE_EXHAUSTED. Find: NOT_FOUND when it may
  // still come, FAILED_PRECONDITION when the generation is over.
  absl::Status Put(const GenerationId& generation, const std::string& key, const std::string& value);
  absl::StatusOr<std::string> Find(const GenerationId& generation, const std::string& key) const;

  JobStatus Status(TimePoint now) const;
  // True when no agent is connected and no member is left: the server may forget the job.
  bool Idle() const;

 private:
  struct State;
  const std::unique_ptr<State> state_;
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_JOB_H_
