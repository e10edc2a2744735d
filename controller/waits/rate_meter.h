#ifndef FARANDOLE_CONTROLLER_WAITS_RATE_METER_H_
#define FARANDOLE_CONTROLLER_WAITS_RATE_METER_H_

#include <deque>

#include "base/clock.h"
#include "controller/types/job_status.h"

namespace farandole::controller::waits {

// Rates of counters over the last ten seconds. Pure.
class RateMeter {
 public:
  // The counters as of `now`; cheap, keeps one sample a second.
  void Note(const Traffic& total, TimePoint now);
  struct Rates {
    uint64_t batches_per_second = 0;
    uint64_t tensors_per_second = 0;
    uint64_t bytes_per_second = 0;
  };
  // `total` as given to Note last.
  Rates At(const Traffic& total, TimePoint now) const;

 private:
  struct Sample {
    TimePoint at;
    Traffic total;
  };
  std::deque<Sample> samples_;  // at most a dozen
};

}  // namespace farandole::controller::waits

#endif  // FARANDOLE_CONTROLLER_WAITS_RATE_METER_H_
