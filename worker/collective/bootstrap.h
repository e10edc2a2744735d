#ifndef FARANDOLE_WORKER_COLLECTIVE_BOOTSTRAP_H_
#define FARANDOLE_WORKER_COLLECTIVE_BOOTSTRAP_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace farandole::worker::collective {

// What a communicator may ask of the control plane while it is being built: values that members leave for each other
// (addresses, ids) and memory of the host. All scoped to the current generation. Blocking; any thread but the control
// loop. Everything ends with ABORTED when the generation does.
class Bootstrap {
 public:
  virtual ~Bootstrap() = default;

  // ALREADY_EXISTS: the key holds another value.
  virtual absl::Status Put(const std::string& key, const std::string& value) = 0;
  // Waits until somebody has put the key. DEADLINE_EXCEEDED after `timeout_ms`.
  virtual absl::StatusOr<std::string> Get(const std::string& key, uint32_t timeout_ms) = 0;
  // The segment of this key, shared by all workers of the agent, zero-filled when new. RESOURCE_EXHAUSTED: the host has
  // not so much memory; UNAVAILABLE: no agent (a lone process).
  virtual absl::StatusOr<UniqueFd> Segment(const std::string& key, uint64_t size_bytes) = 0;
};

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_BOOTSTRAP_H_
