#ifndef FARANDOLE_CONTROLLER_OPTIONS_H_
#define FARANDOLE_CONTROLLER_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "controller/log.h"
#include "controller/watch_config.h"

namespace farandole {

// Everything farandole-controller is told. Descriptors: -1 = not given.
struct Options {
  std::string listen = "127.0.0.1:0";
  int key_fd = -1;
  std::string key_file;
  int ready_fd = -1;
  int lifeline_fd = -1;
  std::string health_listen;
  std::string metrics_listen;
  bool insecure = false;
  std::string tls_cert;
  std::string tls_key;
  bool tls_pinned = false;
  // Only print the certificate of tls_pinned.
  bool print_certificate = false;
  LogLevel log_level = LogLevel::kWarning;
  // HOROVOD_FUSION_THRESHOLD of the environment.
  int64_t fusion_threshold_bytes = 128 << 20;
  // HOROVOD_CYCLE_TIME, FARANDOLE_DETERMINISTIC and HOROVOD_CACHE_CAPACITY.
  uint32_t batch_window_ms = 0;
  bool deterministic = false;
  uint32_t cache_capacity = 1024;
  // HOROVOD_STALL_CHECK_TIME_SECONDS and the like.
  WatchConfig watch;
  bool help = false;
  bool version = false;
};

extern const char kUsage[];

// `args` without the program's name. INVALID_ARGUMENT says which argument is wrong and how. Refused among others: no
// key, and an address beyond loopback with neither TLS files nor --insecure.
absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args);

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_OPTIONS_H_
