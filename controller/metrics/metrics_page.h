#ifndef FARANDOLE_CONTROLLER_METRICS_METRICS_PAGE_H_
#define FARANDOLE_CONTROLLER_METRICS_METRICS_PAGE_H_

#include <string>

#include "base/clock.h"
#include "controller/hub/hub.h"

namespace farandole::controller::metrics {

// The page of all jobs of a hub for /metrics. Written at most once a second, however often it is asked for: that port
// wants no token, and the hub does nothing else meanwhile. On the hub's strand.
class MetricsPage {
 public:
  static constexpr int64_t kKeptMs = 1000;

  // `hub` outlives this.
  explicit MetricsPage(const hub::Hub* hub);

  // At most kKeptMs old.
  const std::string& Text();

 private:
  const hub::Hub* const hub_;
  const double started_s_;
  std::string text_;  // empty: never written
  TimePoint written_;
};

}  // namespace farandole::controller::metrics

#endif  // FARANDOLE_CONTROLLER_METRICS_METRICS_PAGE_H_
