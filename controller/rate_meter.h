#ifndef FARANDOLE_CONTROLLER_RATE_METER_H_
#define FARANDOLE_CONTROLLER_RATE_METER_H_

#include <deque>

#include "base/clock.h"
#include "controller/job_status.h"

namespace farandole {

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

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_RATE_METER_H_
