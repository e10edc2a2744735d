#ifndef FARANDOLE_CONTROLLER_METRICS_PROCESS_START_H_
#define FARANDOLE_CONTROLLER_METRICS_PROCESS_START_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace farandole::controller::metrics {

// When this process began, in seconds since 1970, as the kernel tells it; 0 if /proc does not. To 10 ms, so that it
// differs from that of the process before it.
double ProcessStartSeconds();

// The same of the texts of /proc/PID/stat and /proc/stat; 0 if they are not understood.
double StartSeconds(absl::string_view process, absl::string_view machine, int64_t ticks_per_s);

}  // namespace farandole::controller::metrics

#endif  // FARANDOLE_CONTROLLER_METRICS_PROCESS_START_H_
