#include "controller/wait_watch.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "controller/crosswise.h"
#include "controller/rank_text.h"
#include "controller/wait_report.h"

namespace farandole {
namespace {

constexpr int64_t kLookMs = 500;
// Ranks that have announced something within this time are under way: what looks crosswise then is most likely two
// ranks that submit the same in another order.
constexpr int64_t kQuietMs = 1000;
constexpr int64_t kSlackMs = 1000;
constexpr size_t kGroupsMax = 64;

}  // namespace

WaitWatch::WaitWatch(int size, const WatchConfig& config)
    : config_(config), announced_at_(size), reports_(size), lateness_(size), stall_(config.stall) {}

void WaitWatch::Arm(TimePoint now) {
  if (next_look_ == TimePoint::Infinite()) next_look_ = now.PlusMs(kLookMs);
}

void WaitWatch::Announced(Rank rank, TimePoint first, bool last, TimePoint now) {
  announced_at_[rank.value()] = now;
  lateness_.Announced(rank, (now.ns() - first.ns()) / 1000, last);
  Arm(now);
}

void WaitWatch::Reported(Rank rank, const WorkerReport& report, TimePoint now) {
  reports_.Store(rank, report, now);
  rates_.Note(reports_.total(), now);
  Arm(now);
}

WaitWatch::Verdict WaitWatch::Look(const std::vector<OpenWait>& waits, TimePoint now) {
  Verdict verdict;
  next_look_ = waits.empty() ? TimePoint::Infinite() : now.PlusMs(kLookMs);
  if (now.MsSince(slack_taken_) >= kSlackMs) {
    slack_taken_ = now;
    lateness_.Reported(reports_.FreshSlack(now));
  }
  StallInspector::Finding stalled = stall_.Look(GroupWaits(waits), now);
  for (std::string& warning : stalled.warnings) verdict.said.push_back(absl::StrCat("stall: ", std::move(warning)));
  verdict.fatal = std::move(stalled.fatal);
  LookForDivergence(waits, now, &verdict);
  return verdict;
}

void WaitWatch::LookForDivergence(const std::vector<OpenWait>& waits, TimePoint now, Verdict* verdict) {
  RankSet found;
  if (waits.size() > 1 && waits.size() < kWaitsMax) {
    RankSet quiet;
    for (size_t r = 0; r < announced_at_.size(); ++r) {
      if (now.MsSince(announced_at_[r]) >= kQuietMs) quiet.Add(Rank(static_cast<int32_t>(r)));
    }
    found = FindCrosswise(waits, quiet);
  }
  if (!found.Intersects(diverged_)) diverged_since_ = now;
  const bool changed = !(found == diverged_);
  diverged_ = std::move(found);
  if (diverged_.empty()) {
    divergence_.clear();
    return;
  }
  if (changed) {
    divergence_ = absl::StrCat("the scripts of ", RankText(diverged_.ToVector()),
                               " have diverged: ", CrosswiseText(waits, diverged_));
    verdict->said.push_back(config_.divergence_after_ms == 0
                                ? divergence_
                                : absl::StrCat(divergence_, "; unless one of them submits more, the job fails in ",
                                               config_.divergence_after_ms / 1000, " s"));
  }
  if (config_.divergence_after_ms > 0 && now.MsSince(diverged_since_) >= config_.divergence_after_ms &&
      verdict->fatal.empty()) {
    verdict->fatal =
        absl::StrCat(divergence_, "; FARANDOLE_DIVERGENCE_SECONDS is ", config_.divergence_after_ms / 1000);
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
  const RateMeter::Rates rates = rates_.At(reports_.total(), now);
  status->batches_per_second = rates.batches_per_second;
  status->tensors_per_second = rates.tensors_per_second;
  status->bytes_per_second = rates.bytes_per_second;
  for (MemberStatus& member : status->members) {
    const Rank rank = member.member.rank;
    if (!rank.known() || rank.value() >= static_cast<int32_t>(announced_at_.size())) continue;
    member.lateness = lateness_.Of(rank);
    member.traffic = reports_.TrafficOf(rank);
    member.report_age_ms = reports_.AgeMs(rank, now);
  }
}

}  // namespace farandole
