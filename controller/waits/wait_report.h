#ifndef FARANDOLE_CONTROLLER_WAITS_WAIT_REPORT_H_
#define FARANDOLE_CONTROLLER_WAITS_WAIT_REPORT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "controller/types/job_status.h"
#include "controller/types/open_wait.h"

namespace farandole::controller::waits {

// What some ranks that are waited for have submitted instead.
struct SubmittedBy {
  RankSet ranks;
  std::string name;  // the oldest; "" = nothing
};

// Waits of the same ranks for the same others, as one.
struct WaitGroup {
  WaitKind kind = WaitKind::kTensor;
  uint32_t process_set = 0;
  std::vector<std::string> names;  // the oldest few
  size_t name_count = 0;
  RankSet ready;
  RankSet missing;
  TimePoint since;  // of the oldest
  std::vector<SubmittedBy> instead;
  std::string detail;
  uint64_t number = 0;
};

// In the order of `waits`, which is that of their beginning. Cost grows with the number of waits times that of ranks,
// in words of 64.
std::vector<WaitGroup> GroupWaits(const std::vector<OpenWait>& waits);

// "for 12 s ranks 0 and 1 have waited for rank 2 with `a` and 3 more; rank 2 has submitted `b` instead".
std::string WaitText(const WaitGroup& group, TimePoint now);

// "the job was ended after 2.5 s (NAME)", of a variable in seconds.
std::string BoundText(const char* variable, int64_t ms);

// "held back by a batch, begun in the replay, that rank 2 has not entered".
std::string HeldText(const RankSet& missing);

// "`a`, `b` and 159 more".
std::string NamesText(const std::vector<std::string>& names, size_t count);

// As status shows it, with lists of bounded length.
Wait ToStatus(const WaitGroup& group, TimePoint now);

}  // namespace farandole::controller::waits

#endif  // FARANDOLE_CONTROLLER_WAITS_WAIT_REPORT_H_
