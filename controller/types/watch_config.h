#ifndef FARANDOLE_CONTROLLER_TYPES_WATCH_CONFIG_H_
#define FARANDOLE_CONTROLLER_TYPES_WATCH_CONFIG_H_

#include <cstdint>

namespace farandole::controller {

// How long ranks may wait for each other. Times in milliseconds, 0 = for ever.
struct StallConfig {
  int64_t warn_after_ms = 60000;
  int64_t shutdown_after_ms = 0;
};

struct WatchConfig {
  StallConfig stall;
  int64_t divergence_after_ms = 60000;  // a crosswise wait that lasts so long is fatal
};

}  // namespace farandole::controller

#endif  // FARANDOLE_CONTROLLER_TYPES_WATCH_CONFIG_H_
