#include "worker/session/outage_watch.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole::worker::session {

void OutageWatch::Lost(const std::string& why, TimePoint now) {
  if (!lost_) since_ = now;
  lost_ = true;
  why_ = why;
}

int64_t OutageWatch::LeftMs(const WorkerReport& report, TimePoint now) const {
  const int64_t waits_ms = static_cast<int64_t>(std::max(report.oldest_open_ms, report.in_flight_ms));
  return std::max<int64_t>(bound_ms_ - std::min(now.MsSince(since_), waits_ms), 0);
}

std::string OutageWatch::Sentence(const WorkerReport& report, TimePoint now) const {
  const std::string& name = report.in_flight.empty() ? report.oldest_open : report.in_flight;
  return absl::StrCat("the controller has been out of reach for ", now.MsSince(since_) / 1000, " s, and \"", name,
                      "\" has waited for ", std::max(report.oldest_open_ms, report.in_flight_ms) / 1000,
                      " s (FARANDOLE_CONTROLLER_TIMEOUT_SECONDS): ", why_,
                      "; look at the network between this host and the controller's, and whether the controller runs");
}

}  // namespace farandole::worker::session
