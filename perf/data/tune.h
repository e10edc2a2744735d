#ifndef FARANDOLE_PERF_DATA_TUNE_H_
#define FARANDOLE_PERF_DATA_TUNE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/schedule/schedule_table.h"

namespace farandole::perf::data {

struct TuneOptions {
  std::vector<int> ranks = {2, 4};  // numbers of members to measure, rising
  int64_t bytes_max = 64 << 20;
  int rounds = 7;
  // "tcp" or "verbs", with the devices that FARANDOLE_VERBS_* name.
  std::string transport = "tcp";
};

// Measures every schedule for every operation that has a choice, at powers of four, within this machine.
// Returns a table as ScheduleTable::Parse reads it: rows for members up to each number that was measured, with what was
// measured as comments. Errors as MeasureSchedules, which forks;
// INVALID_ARGUMENT also if a variable of RDMA makes no sense.
absl::StatusOr<std::string> Tune(const TuneOptions& options);

// Rows for sizes that rise, of which the first begins at 0 and the last has no end. `us`: [algorithm][size]. A size
// keeps the schedule of the one before unless another is quicker by more than what two measurements differ by.
std::vector<worker::schedule::ScheduleRow> QuickestRows(worker::schedule::ScheduledOp op, int members_min,
                                                        int members_max, const std::vector<int64_t>& sizes,
                                                        const std::vector<worker::schedule::Algorithm>& algorithms,
                                                        const std::vector<std::vector<double>>& us);

}  // namespace farandole::perf::data

#endif  // FARANDOLE_PERF_DATA_TUNE_H_
