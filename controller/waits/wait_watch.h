#ifndef FARANDOLE_CONTROLLER_WAITS_WAIT_WATCH_H_
#define FARANDOLE_CONTROLLER_WAITS_WAIT_WATCH_H_

#include <cstdint>
#include <string>
#include <vector>

#include "base/clock.h"
#include "controller/types/job_status.h"
#include "controller/types/open_wait.h"
#include "controller/types/watch_config.h"
#include "controller/waits/lateness.h"
#include "controller/waits/rate_meter.h"
#include "controller/waits/report_table.h"
#include "controller/waits/stall_inspector.h"

namespace farandole::controller::waits {

// Who waits for whom in one generation: keeps what ranks say about themselves and how late they are, and looks at the
// open waits twice a second while there are any. Pure. An announcement costs O(1).
class WaitWatch {
 public:
  // So many open waits are looked at; with more, crosswise waits are not searched for.
  static constexpr size_t kWaitsMax = 4096;

  WaitWatch(int size, const WatchConfig& config);

  // `rank` has announced something that the first rank announced at `first`; `last`: all have now.
  void Announced(Rank rank, TimePoint first, bool last, TimePoint now);
  void Reported(Rank rank, const WorkerReport& report, TimePoint now);
  // Something may be waited for from now on.
  void Arm(TimePoint now);

  TimePoint next_look() const { return next_look_; }
  struct Verdict {
    std::vector<std::string> said;  // sentences for the log and for rank 0
    std::string fatal;              // why the generation must fail; "" = it need not
  };
  // At next_look(). `waits`: all that is open, at most kWaitsMax, oldest first. `heard`: members whose announcements
  // come through; of others nobody knows what they have submitted since, so that they are in no crosswise wait.
  Verdict Look(const std::vector<OpenWait>& waits, const RankSet& heard, TimePoint now);

  const ReportTable& reports() const { return reports_; }
  // Everything that this knows: waits, divergence, traffic, rates; of members, which are there already, lateness and
  // traffic.
  void FillStatus(const std::vector<OpenWait>& waits, TimePoint now, JobStatus* status) const;

 private:
  void LookForDivergence(const std::vector<OpenWait>& waits, const RankSet& heard, TimePoint now, Verdict* verdict);

  const WatchConfig config_;
  const int size_;
  ReportTable reports_;
  Lateness lateness_;
  RateMeter rates_;
  StallInspector stall_;
  TimePoint next_look_ = TimePoint::Infinite();
  TimePoint slack_taken_;
  // The crosswise wait that was found last, by the beginnings of the requests in it; since when; what was said of it.
  uint64_t crossed_ = 0;  // 0 = none
  TimePoint crossed_since_;
  TimePoint said_at_;
  std::string divergence_;
};

}  // namespace farandole::controller::waits

#endif  // FARANDOLE_CONTROLLER_WAITS_WAIT_WATCH_H_
