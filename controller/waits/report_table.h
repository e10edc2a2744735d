#ifndef FARANDOLE_CONTROLLER_WAITS_REPORT_TABLE_H_
#define FARANDOLE_CONTROLLER_WAITS_REPORT_TABLE_H_

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "controller/types/job_status.h"
#include "controller/types/open_wait.h"
#include "proto/messages.h"

namespace farandole::controller::waits {

// What each rank last said about itself, for people; never the ground of a decision. Pure. About 120 bytes a rank, once
// any has reported; names are held once for all ranks that say the same.
class ReportTable {
 public:
  explicit ReportTable(int size) : size_(size) {}

  int size() const { return size_; }

  void Store(Rank rank, const WorkerReport& report, TimePoint now);

  // Of one rank, and how long ago it said so; zeros if it never did.
  Traffic TrafficOf(Rank rank) const;
  uint64_t AgeMs(Rank rank, TimePoint now) const;
  // Of all ranks together.
  const Traffic& total() const { return total_; }
  // Of it what was done under this controller: not what a rank's first report has, which may be of an earlier time.
  const Traffic& gained() const { return gained_; }
  // Of one rank; zeros if it has measured nothing.
  DeviceTime DeviceTimeOf(Rank rank) const;

  // As rank 0 said last; "" if it never did.
  const std::string& communicates_by() const { return communicates_by_; }

  // For how long members have reported to be in this phase; 0 = none has.
  uint64_t PhaseAgeMs(uint32_t phase, TimePoint now) const;

  // Slack of those that have reported some within the last seconds.
  std::vector<std::pair<Rank, uint64_t>> FreshSlack(TimePoint now) const;
  // In this phase, a replay: the greatest position, i.e. how many of its batches some rank has started.
  uint64_t Furthest(uint32_t phase) const;
  // A rank waits in a batch of the replay, by its own account for a second or longer: who, since when, and what those
  // ranks lack that are not that far. Empty if nobody waits.
  std::vector<OpenWait> ReplayWaits(uint32_t phase, const Period& period, TimePoint now) const;
  // What a rank is in, by its own account, since when.
  struct InFlight {
    Rank rank;
    uint64_t item = 0;  // 0: the replay has started it
    uint32_t process_set = 0;
    std::string name;  // the first of it
    TimePoint since;
  };
  // Of all that have been in something for two seconds or longer.
  std::vector<InFlight> LongInFlight(uint32_t phase, TimePoint now) const;

 private:
  struct Names {
    std::string in_flight;
    std::vector<std::string> head_missing;
  };
  struct Entry {
    TimePoint heard;
    uint64_t next = 0;
    Traffic traffic;
    uint32_t slack_us = 0;
    uint32_t in_flight_ms = 0;
    uint32_t in_flight_process_set = 0;
    uint64_t in_flight_item = 0;
    uint32_t head_missing_count = 0;
    uint32_t phase = 0;
    WorkerState state = WorkerState::kNegotiate;
    bool any = false;
    std::shared_ptr<const Names> names;  // null = no names
  };
  std::shared_ptr<const Names> Share(const WorkerReport& report);
  // Whether its last report is of this phase and not old.
  static bool IsFresh(const Entry& entry, uint32_t phase, TimePoint now);
  std::string Lacks(const RankSet& ranks, const Period& period) const;
  // What one of them lacks; "" if that is not known.
  static std::string NamesOf(const Entry& entry, const Period& period);

  const int size_;
  std::vector<Entry> entries_;            // empty before the first report
  std::vector<DeviceTime> device_times_;  // empty before the first one that has any
  Traffic total_, gained_;
  std::string communicates_by_;
  // The newest phase that was reported, and when that was first.
  uint32_t phase_ = 0;
  TimePoint phase_since_;
  // What was shared last; ranks that wait for the same say so within one second.
  std::array<std::shared_ptr<const Names>, 8> recent_;
  size_t next_recent_ = 0;
};

}  // namespace farandole::controller::waits

#endif  // FARANDOLE_CONTROLLER_WAITS_REPORT_TABLE_H_
