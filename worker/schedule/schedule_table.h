#ifndef FARANDOLE_WORKER_SCHEDULE_SCHEDULE_TABLE_H_
#define FARANDOLE_WORKER_SCHEDULE_SCHEDULE_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/schedule/schedule.h"

namespace farandole::worker::schedule {

// Collectives for which there is a choice of schedules.
enum class ScheduledOp : uint8_t { kAllreduce, kReducescatter, kAllgather };

// One line: what serves an operation on this many bytes (of the whole operand; of the result of an allgather) among
// this many members. Both bounds are included.
struct ScheduleRow {
  ScheduledOp op;
  int64_t bytes_min;
  int64_t bytes_max;
  int members_min;
  int members_max;
  Algorithm algorithm;
};

// Which schedule a collective takes, as data. The first row counts that admits operation, bytes and members, and whose
// schedule the members have the channels for. The same on all members.
class ScheduleTable {
 public:
  // Where rows have no upper bound.
  static constexpr int64_t kAnyBytes = INT64_MAX;
  static constexpr int kAnyMembers = INT32_MAX;

  // The rows that are built in: they admit everything.
  ScheduleTable();
  // These rows, then the built-in ones. Text has one row per line, as Text() prints them: operation, from bytes, to
  // bytes, from members, to members, schedule; "any" for no upper bound; "#" begins a comment. INVALID_ARGUMENT names
  // `source`, the line and what is allowed.
  static absl::StatusOr<ScheduleTable> Parse(absl::string_view text, absl::string_view source);
  // From a file; the built-in table if `path` is empty. NOT_FOUND: it cannot be read.
  static absl::StatusOr<ScheduleTable> Load(const std::string& path);

  // `mesh`: every member has a channel to every other. `ordered`: only schedules that combine in order of position are
  // admitted, if there is a mesh.
  Algorithm Choose(ScheduledOp op, int64_t bytes, int members, bool mesh, bool ordered = false) const;

  // One line without its end.
  static std::string Heading();
  std::string Text() const;
  // Differs between tables that differ.
  std::string Fingerprint() const;

 private:
  std::vector<ScheduleRow> rows_;
};

// A line of a table, without its end.
std::string ToString(const ScheduleRow& row);
const char* Name(ScheduledOp op);
const char* Name(Algorithm algorithm);

}  // namespace farandole::worker::schedule

#endif  // FARANDOLE_WORKER_SCHEDULE_SCHEDULE_TABLE_H_
