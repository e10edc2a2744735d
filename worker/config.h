#ifndef FARANDOLE_WORKER_CONFIG_H_
#define FARANDOLE_WORKER_CONFIG_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/messages.h"
#include "proto/types.h"
#include "transport/verbs/options.h"
#include "worker/os/log.h"

namespace farandole::worker {

// Where the GPU libraries are, as paths or as names that the loader searches for.
struct GpuLibraryPaths {
  std::string cuda = "libcuda.so.1";
  // Empty: the usual places (worker/cuda/nccl_library.h).
  std::string nccl;
  // NCCL's own: whether it is to serve several ranks on one GPU, and what it is to take for the name of this host, so
  // that such ranks pass for several.
  bool nccl_multi_rank = false;
  std::string nccl_host_id;
};

// Everything that a worker can be told from outside. config.cc is the one place that reads the environment; the names
// of the variables stand there and in docs/configuration.md.
struct Config {
  // Abstract name of the agent's socket; empty: a lone process, rank 0 of 1.
  std::string agent_socket;
  std::string job = "lone";
  Rank rank{0};  // unknown: any free one
  int32_t size = 1;
  // How long init() waits for agent, controller and the other ranks.
  uint32_t start_timeout_ms = 30000;
  // Of an elastic job: the fewest and the most processes (0 = no bound) that it goes on with. 0, 0: it is not elastic.
  int32_t min_size = 0;
  int32_t max_size = 0;
  // What its launcher calls the place of this process on the host; -1: nothing.
  int32_t slot = -1;
  // In its place then how long init() waits to become a member.
  uint32_t elastic_timeout_ms = 600000;
  // Bound on one collective.
  uint32_t op_timeout_ms = 24 * 3600 * 1000;
  // How long an operation may wait while the controller is out of reach.
  uint32_t controller_timeout_ms = 300 * 1000;
  // What is set of proto/job_variables.h, for the controller, which reads it.
  std::vector<Variable> job_variables;
  // "auto", or a medium: of the host "shm", "hier", "verbs" or "tcp", of GPUs "nccl" or "staged".
  std::string communicator = "auto";
  // What carries data between hosts: "auto", "tcp" or "verbs".
  std::string transport = "auto";
  transport::verbs::VerbsOptions verbs;
  // Numeric, of the interface on which workers of other hosts find this one; empty: see collective::Group.
  std::string data_address;
  // File with rows for the table of schedules; empty: the built-in ones.
  std::string schedule_table;
  // Connections to each peer.
  int32_t tcp_connections = 1;
  bool data_encryption = false;
  // Whether front ends get memory for tensors that peers can map.
  bool shared_tensors = true;
  GpuLibraryPaths gpu_libraries;
  os::LogLevel log_level = os::LogLevel::kWarning;
  // Where rank 0 writes the timeline from init() on; empty: nothing until it is asked to.
  std::string timeline;
  bool timeline_mark_cycles = false;

  bool lone() const { return agent_socket.empty(); }
  bool elastic() const { return min_size > 0 && !lone(); }
  uint32_t init_timeout_ms() const { return elastic() ? elastic_timeout_ms : start_timeout_ms; }
};

// Value of a variable, or nullptr.
using Environment = std::function<const char*(const char* name)>;
Environment ProcessEnvironment();

// INVALID_ARGUMENT names the variable, its value and what is allowed.
absl::StatusOr<Config> ReadConfig(const Environment& environment);
// Only these, which front ends may ask for before init().
GpuLibraryPaths ReadGpuLibraryPaths(const Environment& environment);
// The same of RDMA. INVALID_ARGUMENT as ReadConfig.
absl::StatusOr<transport::verbs::VerbsOptions> ReadVerbsOptions(const Environment& environment);

// One line, all fields.
std::string ToString(const Config& config);

}  // namespace farandole::worker

#endif  // FARANDOLE_WORKER_CONFIG_H_
