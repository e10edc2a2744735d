#ifndef FARANDOLE_AGENT_LAUNCH_OPTIONS_H_
#define FARANDOLE_AGENT_LAUNCH_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/command_line.h"

namespace farandole::agent::launch {

// All configuration of an agent. Filled here and nowhere else.
struct AgentOptions {
  std::string job;
  std::string controller;  // host:port
  std::string token;
  std::string tls_ca_pem;   // empty: no TLS
  bool tls_pinned = false;  // tls_ca_pem is the controller's own certificate, whatever its address
  // Of this end, where the controller wants one.
  std::string tls_cert_pem;
  std::string tls_key_pem;
  // "": from no file.
  std::string token_file;
  std::string tls_ca_file;
  std::string tls_cert_file;
  std::string tls_key_file;
  int32_t size = 0;  // of the whole job
  int32_t first_rank = 0;
  int32_t local_size = 0;
  std::vector<int32_t> local_sizes;  // of all hosts; empty: all have as many as this one
  int32_t host_index = 0;            // of this one among them
  std::string host_name;
  std::string data_address;  // where workers listen for those of other hosts; empty: their default
  std::string agent_id;
  std::string socket_name;
  int ready_fd = -1;
  int lifeline_fd = -1;
  int launcher_fd = -1;
  bool prefix_output = false;
  bool pod = false;
  int32_t min_size = 0;  // above 0: the job is elastic, and ranks are not known before its workers have met
  int32_t max_size = 0;  // 0: no bound
  int64_t leave_ms = 25000;
  std::string run;
  bool verbose = false;  // the environment's log level is info or below
  int64_t grace_ms = 3000;
  std::vector<std::string> command;      // empty: serves workers that others start
  std::vector<std::string> environment;  // this process's own, "NAME=value"
};

const Program& AgentProgram();

// Reads the arguments without the program's name, the token and the TLS file. INVALID_ARGUMENT with one sentence for
// everything that a user can get wrong.
absl::StatusOr<AgentOptions> ParseAgentOptions(const std::vector<std::string>& arguments);

}  // namespace farandole::agent::launch

#endif  // FARANDOLE_AGENT_LAUNCH_OPTIONS_H_
