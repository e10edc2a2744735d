#ifndef FARANDOLE_CONTROLLER_WAITS_STALL_INSPECTOR_H_
#define FARANDOLE_CONTROLLER_WAITS_STALL_INSPECTOR_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "controller/types/watch_config.h"
#include "controller/waits/wait_report.h"

namespace farandole::controller::waits {

// Says who is waited for when a wait has become long: once, and again when those who are waited for change, but of one
// wait not more often than every 10 s. Pure.
class StallInspector {
 public:
  explicit StallInspector(const StallConfig& config) : config_(config) {}

  struct Finding {
    std::vector<std::string> warnings;
    std::string fatal;  // a wait has lasted longer than the shutdown time; "" = none has
  };
  Finding Look(const std::vector<WaitGroup>& waits, TimePoint now);

 private:
  // By kind, process set and the time when it began, so that two waits that begin in the same nanosecond are one, or
  // the number of a collective.
  using Key = std::pair<std::pair<WaitKind, uint32_t>, int64_t>;
  struct Said {
    RankSet missing;
    TimePoint at;
  };

  const StallConfig config_;
  std::map<Key, Said> said_;  // of waits that are open; bounded by their number
};

}  // namespace farandole::controller::waits

#endif  // FARANDOLE_CONTROLLER_WAITS_STALL_INSPECTOR_H_
