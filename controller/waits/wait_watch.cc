#include "controller/waits/wait_watch.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/types/rank_text.h"
#include "controller/waits/crosswise.h"
#include "controller/waits/wait_report.h"

namespace farandole::controller::waits {
namespace {

constexpr int64_t kLookMs = 500;
// What looks crosswise for a moment is most likely two ranks that submit the same in another order: the same requests
// have to be found for so long.
constexpr int64_t kCrossedMs = 1000;
constexpr int64_t kSayAgainMs = 10000;
constexpr int64_t kSlackMs = 1000;
constexpr size_t kGroupsMax = 64;

bool IsCollective(const OpenWait& wait) { return wait.kind == WaitKind::kCollective; }

// Without collectives that go on: whoever is in one may submit more all the same.
std::vector<OpenWait> Requests(const std::vector<OpenWait>& waits) {
  std::vector<OpenWait> requests;
  std::remove_copy_if(waits.begin(), waits.end(), std::back_inserter(requests), IsCollective);
  return requests;
}

}  // namespace

WaitWatch::WaitWatch(int size, const WatchConfig& config)
    : config_(config), size_(size), reports_(size), lateness_(size), stall_(config.stall) {}

void WaitWatch::Arm(TimePoint now) {
  if (next_look_ == TimePoint::Infinite()) next_look_ = now.PlusMs(kLookMs);
}

void WaitWatch::Announced(Rank rank, TimePoint first, bool last, TimePoint now) {
  lateness_.Announced(rank, (now.ns() - first.ns()) / 1000, last);
  Arm(now);
}

void WaitWatch::Reported(Rank rank, const WorkerReport& report, TimePoint now) {
  reports_.Store(rank, report, now);
  rates_.Note(reports_.gained(), now);
  Arm(now);
}

WaitWatch::Verdict WaitWatch::Look(const std::vector<OpenWait>& waits, const RankSet& heard, TimePoint now) {
  Verdict verdict;
  next_look_ = waits.empty() ? TimePoint::Infinite() : now.PlusMs(kLookMs);
  if (now.MsSince(slack_taken_) >= kSlackMs) {
    slack_taken_ = now;
    lateness_.Reported(reports_.FreshSlack(now));
  }
  StallInspector::Finding stalled = stall_.Look(GroupWaits(waits), now);
  for (std::string& warning : stalled.warnings) verdict.said.push_back(absl::StrCat("stall: ", std::move(warning)));
  verdict.fatal = std::move(stalled.fatal);
  if (waits.size() >= kWaitsMax) {
    // Some of what is open may be missing.
    LookForDivergence({}, heard, now, &verdict);
  } else if (std::any_of(waits.begin(), waits.end(), IsCollective)) {
    LookForDivergence(Requests(waits), heard, now, &verdict);
  } else {
    LookForDivergence(waits, heard, now, &verdict);
  }
  return verdict;
}

void WaitWatch::LookForDivergence(const std::vector<OpenWait>& waits, const RankSet& heard, TimePoint now,
                                  Verdict* verdict) {
  RankSet found;
  if (waits.size() > 1) found = FindCrosswise(waits, heard);
  uint64_t crossed = 0;
  for (const OpenWait& wait : waits) {
    if (wait.ready.Intersects(found)) crossed = crossed * 31 + static_cast<uint64_t>(wait.since.ns());
  }
  if (crossed != crossed_) {
    crossed_ = crossed;
    crossed_since_ = now;
    divergence_.clear();
  }
  const int64_t age_ms = now.MsSince(crossed_since_);
  if (crossed == 0 || age_ms < kCrossedMs) return;
  const int64_t limit_ms = config_.divergence_after_ms;
  if (divergence_.empty()) {
    divergence_ =
        absl::StrCat("the scripts of ", RankText(found.ToVector()), " have diverged: ", CrosswiseText(waits, found));
    if (said_at_ == TimePoint() || now.MsSince(said_at_) >= kSayAgainMs) {
      said_at_ = now;
      verdict->said.push_back(limit_ms == 0 ? divergence_
                                            : absl::StrCat(divergence_,
                                                           "; unless one of them submits more, the job "
                                                           "fails in ",
                                                           (limit_ms - age_ms) / 1000, " s"));
    }
  }
  if (limit_ms > 0 && age_ms >= limit_ms && verdict->fatal.empty()) {
    verdict->fatal = absl::StrCat(divergence_, "; ", BoundText("FARANDOLE_DIVERGENCE_SECONDS", limit_ms));
  }
}

void WaitWatch::FillStatus(const std::vector<OpenWait>& waits, TimePoint now, JobStatus* status) const {
  status->open_waits = static_cast<uint32_t>(waits.size());
  for (const WaitGroup& group : GroupWaits(waits)) {
    if (status->waits.size() == kGroupsMax) break;
    status->waits.push_back(ToStatus(group, now));
  }
  status->divergence = divergence_;
  status->traffic = reports_.total();
  status->communicates_by = reports_.communicates_by();
  const RateMeter::Rates rates = rates_.At(reports_.gained(), now);
  status->batches_per_second = rates.batches_per_second;
  status->tensors_per_second = rates.tensors_per_second;
  status->bytes_per_second = rates.bytes_per_second;
  for (MemberStatus& member : status->members) {
    const Rank rank = member.member.rank;
    if (!rank.known() || rank.value() >= size_) continue;
    member.lateness = lateness_.Of(rank);
    member.traffic = reports_.TrafficOf(rank);
    member.report_age_ms = reports_.AgeMs(rank, now);
    member.device_time = reports_.DeviceTimeOf(rank);
  }
}

}  // namespace farandole::controller::waits
