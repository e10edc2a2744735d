#ifndef FARANDOLE_WORKER_LINK_AGENT_CALLS_H_
#define FARANDOLE_WORKER_LINK_AGENT_CALLS_H_

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "base/unique_fd.h"

namespace farandole::worker::link {

// Questions to the agent whose askers wait for the answer. Any thread. std::condition_variable, since abseil's timed
// waits use the wall clock.
class AgentCalls {
 public:
  struct Reply {
    absl::Status status;
    std::string value;
    UniqueFd fd;
  };

  // A number that no other question has.
  uint64_t NewId();
  // Notes a question; `bytes` is kept to be sent again through a new connection.
  void Add(uint64_t id, std::string bytes);
  // Waits for its answer and forgets it. DEADLINE_EXCEEDED, or ABORTED after End().
  Reply Wait(uint64_t id, uint32_t timeout_ms);

  // An answer that nobody waits for is dropped.
  void Answer(uint64_t id, Reply reply);
  std::vector<std::string> Unanswered() const;
  // Those under way and all later ones end with ABORTED; the first reason stays.
  void End(const std::string& reason);

 private:
  struct Call {
    std::string bytes;
    bool answered = false;
    Reply reply;
  };

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t last_id_ = 0;
  std::map<uint64_t, Call> calls_;
  absl::Status end_;
};

}  // namespace farandole::worker::link

#endif  // FARANDOLE_WORKER_LINK_AGENT_CALLS_H_
