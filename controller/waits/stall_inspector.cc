#include "controller/waits/stall_inspector.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole::controller::waits {
namespace {

constexpr int64_t kAgainMs = 10000;

}  // namespace

StallInspector::Finding StallInspector::Look(const std::vector<WaitGroup>& waits, TimePoint now) {
  Finding finding;
  std::map<Key, Said> open;
  for (const WaitGroup& group : waits) {
    const int64_t age_ms = now.MsSince(group.since);
    // A collective in which nobody is known to be missing may be slow.
    const bool fatal = config_.shutdown_after_ms > 0 && !group.missing.empty();
    if (fatal && age_ms >= config_.shutdown_after_ms && finding.fatal.empty()) {
      finding.fatal = absl::StrCat("stalled: ", WaitText(group, now), "; ",
                                   BoundText("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", config_.shutdown_after_ms));
    }
    // What is known from reports has no exact beginning.
    const bool reported = group.kind == WaitKind::kReplay || group.kind == WaitKind::kCollective;
    const Key key{{group.kind, group.process_set}, reported ? static_cast<int64_t>(group.number) : group.since.ns()};
    const auto before = said_.find(key);
    if (config_.warn_after_ms == 0 || age_ms < config_.warn_after_ms) {
      // Its time may count anew: what was said of it is not forgotten.
      if (before != said_.end()) open[key] = before->second;
      continue;
    }
    if (before != said_.end() &&
        (before->second.missing == group.missing || now.MsSince(before->second.at) < kAgainMs)) {
      open[key] = before->second;
      continue;
    }
    finding.warnings.push_back(WaitText(group, now));
    open[key] = {group.missing, now};
  }
  said_ = std::move(open);
  return finding;
}

}  // namespace farandole::controller::waits
