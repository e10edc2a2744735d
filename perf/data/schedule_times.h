#ifndef FARANDOLE_PERF_DATA_SCHEDULE_TIMES_H_
#define FARANDOLE_PERF_DATA_SCHEDULE_TIMES_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/types.h"
#include "transport/transport.h"
#include "worker/schedule/scheduled_communicator.h"

namespace farandole::perf::data {

// A way to execute collectives that is to be measured.
struct ScheduleCandidate {
  std::string name;  // another for each
  worker::schedule::ScheduledOptions options;
};

struct ScheduleTimesOptions {
  int ranks = 2;
  int rounds = 7;
  std::vector<int64_t> sizes;  // in bytes, as Communicator counts them for the operation
  // What carries them, called in each rank. Null: TCP.
  std::function<std::unique_ptr<transport::Transport>()> make_transport;
};

// Runs the operation among processes of this host, all candidates by turns. Returns the median over
// rounds of the microseconds that the slowest rank needs, [candidate][size].
//   INVALID_ARGUMENT  not an operation that can be measured
//   UNAVAILABLE       the transport cannot be used here, and why
//   INTERNAL          a rank failed; its words stand on stderr
// Forks: the caller has no other thread.
absl::StatusOr<std::vector<std::vector<double>>> MeasureSchedules(OpKind op,
                                                                  const std::vector<ScheduleCandidate>& candidates,
                                                                  const ScheduleTimesOptions& options);

}  // namespace farandole::perf::data

#endif  // FARANDOLE_PERF_DATA_SCHEDULE_TIMES_H_
