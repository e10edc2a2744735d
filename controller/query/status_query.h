#ifndef FARANDOLE_CONTROLLER_QUERY_STATUS_QUERY_H_
#define FARANDOLE_CONTROLLER_QUERY_STATUS_QUERY_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/command_line.h"

namespace farandole::controller::query {

// `farandole-controller query`: asks a controller, this one or another, for the status of a job.
struct QueryOptions {
  std::string controller;  // HOST:PORT
  std::string job;         // or NAMESPACE.*
  std::string token;
  std::string tls_ca_pem;   // "" = no TLS
  bool tls_pinned = false;  // tls_ca_pem is the controller's own certificate, whatever its address
  int64_t timeout_ms = 3000;
  uint32_t watch_per_second = 0;  // 0 = once
  std::string tls_cert_pem = {};  // of this end, where the controller wants one; both or none
  std::string tls_key_pem = {};
};

const Program& QueryProgram();

// `args` behind "query"; reads the secrets and files that they name. INVALID_ARGUMENT says what is wrong, among others
// a token that would go in the clear beyond loopback.
absl::StatusOr<QueryOptions> ParseQuery(const std::vector<std::string>& args);

// Hands over each status as one line of proto3 JSON (a JobStatus, fields with their defaults included), until `line`
// answers false. Of all jobs of a namespace a JobSummary each. Ends with the call's status: OK once the status was
// told, or `line` had enough; UNAVAILABLE: the controller does not answer within the time.
absl::Status Query(const QueryOptions& options, const std::function<bool(const std::string&)>& line);

// Of the program, for the end of a query: 0, 3 = no answer, 4 = refused, 5 = no such job, 1 = else.
int ExitCode(const absl::Status& status);

}  // namespace farandole::controller::query

#endif  // FARANDOLE_CONTROLLER_QUERY_STATUS_QUERY_H_
