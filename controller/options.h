#ifndef FARANDOLE_CONTROLLER_OPTIONS_H_
#define FARANDOLE_CONTROLLER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/command_line.h"
#include "controller/hub/log.h"
#include "controller/types/job_settings.h"

namespace farandole::controller {

inline JobSettings DefaultSettings() {
  JobSettings settings;
  settings.cache_capacity = 1024;
  return settings;
}

// Everything farandole-controller is told. Descriptors: -1 = not given.
struct Options {
  std::string listen = "127.0.0.1:0";
  int key_fd = -1;
  std::string key_file;
  int ready_fd = -1;
  int lifeline_fd = -1;
  std::string health_listen;
  std::string metrics_listen;
  bool first = false;
  bool insecure = false;
  std::string tls_cert;
  std::string tls_key;
  std::string tls_client_ca;
  bool tls_pinned = false;
  // Only print the certificate of tls_pinned.
  bool print_certificate = false;
  std::string limits_file;  // "": none
  std::string audit_log;    // "-": standard output
  hub::LogLevel log_level = hub::LogLevel::kWarning;
  // What the environment says, for jobs whose rank 0 says nothing else.
  JobSettings settings = DefaultSettings();
};

const Program& ControllerProgram();

// `args` without the program's name. INVALID_ARGUMENT says which argument is wrong and how. Refused among others: no
// key, and an address beyond loopback with neither TLS files nor --insecure.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args);

}  // namespace farandole::controller

#endif  // FARANDOLE_CONTROLLER_OPTIONS_H_
