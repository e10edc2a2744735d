#include "controller/waits/report_table.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/cut_text.h"
#include "controller/types/rank_text.h"
#include "controller/waits/wait_report.h"

namespace farandole::controller::waits {
namespace {

constexpr size_t kNameBytesMax = 128;
constexpr size_t kNamesMax = 4;
constexpr size_t kCommunicatesByBytesMax = 1024;
// Of one that works reports come once a second; an older one says what was.
constexpr int64_t kFreshMs = 2500;
// One that waits says so every second.
constexpr int64_t kStaleMs = 5000;
// In a replay, batches take less; a rank that has been in one for longer waits.
constexpr uint32_t kWaitingMs = 1000;
// A worker that does not wait has told by then what it has received.
constexpr uint32_t kInFlightMs = 2000;
constexpr size_t kLackersMax = 3;

uint32_t Clamp(uint64_t value) {
  return static_cast<uint32_t>(std::min<uint64_t>(value, std::numeric_limits<uint32_t>::max()));
}

// Every counter of `t`, for sums and differences field by field.
std::array<uint64_t*, 6> Fields(Traffic* t) {
  return {&t->batches, &t->tensors, &t->bytes, &t->cache_hits, &t->cache_misses, &t->messages};
}

}  // namespace

std::shared_ptr<const ReportTable::Names> ReportTable::Share(const WorkerReport& report) {
  if (report.in_flight.empty() && report.head_missing.empty()) return nullptr;
  Names names{std::string(CutText(report.in_flight, kNameBytesMax)), {}};
  for (const std::string& name : report.head_missing) {
    if (names.head_missing.size() == kNamesMax) break;
    names.head_missing.emplace_back(CutText(name, kNameBytesMax));
  }
  for (const auto& known : recent_) {
    if (known != nullptr && known->in_flight == names.in_flight && known->head_missing == names.head_missing) {
      return known;
    }
  }
  auto fresh = std::make_shared<const Names>(std::move(names));
  recent_[next_recent_++ % recent_.size()] = fresh;
  return fresh;
}

void ReportTable::Store(Rank rank, const WorkerReport& report, TimePoint now) {
  if (entries_.empty()) entries_.resize(size_);
  Entry& entry = entries_[rank.value()];
  Traffic traffic{report.batches,    report.tensors,      report.bytes,
                  report.cache_hits, report.cache_misses, report.messages};
  const auto total = Fields(&total_), gained = Fields(&gained_), before = Fields(&entry.traffic),
             after = Fields(&traffic);
  for (size_t i = 0; i < total.size(); ++i) {
    *total[i] += *after[i] - *before[i];
    if (entry.any) *gained[i] += *after[i] - *before[i];
  }
  if (report.phase > phase_) {
    phase_ = report.phase;
    phase_since_ = now;
  }
  entry.heard = now;
  entry.next = report.next;
  entry.traffic = traffic;
  entry.slack_us = Clamp(report.slack_us);
  entry.in_flight_ms = Clamp(report.in_flight_ms);
  entry.in_flight_process_set = report.in_flight_process_set;
  entry.in_flight_item = report.in_flight_item;
  entry.head_missing_count = report.head_missing_count;
  entry.phase = report.phase;
  entry.state = report.state;
  entry.any = true;
  entry.names = Share(report);
  if (rank == Rank(0) && !report.communicates_by.empty()) {
    communicates_by_ = std::string(CutText(report.communicates_by, kCommunicatesByBytesMax));
  }
  if (report.device_time.batches == 0) return;
  device_times_.resize(size_);
  device_times_[rank.value()] = report.device_time;
}

Traffic ReportTable::TrafficOf(Rank rank) const {
  return entries_.empty() ? Traffic() : entries_[rank.value()].traffic;
}

DeviceTime ReportTable::DeviceTimeOf(Rank rank) const {
  return device_times_.empty() ? DeviceTime() : device_times_[rank.value()];
}

uint64_t ReportTable::AgeMs(Rank rank, TimePoint now) const {
  if (entries_.empty() || !entries_[rank.value()].any) return 0;
  return std::max<int64_t>(0, now.MsSince(entries_[rank.value()].heard));
}

uint64_t ReportTable::PhaseAgeMs(uint32_t phase, TimePoint now) const {
  return phase != phase_ || phase == 0 ? 0 : std::max<int64_t>(0, now.MsSince(phase_since_));
}

std::vector<std::pair<Rank, uint64_t>> ReportTable::FreshSlack(TimePoint now) const {
  std::vector<std::pair<Rank, uint64_t>> slack;
  for (size_t r = 0; r < entries_.size(); ++r) {
    const Entry& entry = entries_[r];
    if (entry.slack_us == 0 || now.MsSince(entry.heard) > kFreshMs) continue;
    slack.push_back({Rank(static_cast<int32_t>(r)), entry.slack_us});
  }
  return slack;
}

uint64_t ReportTable::Furthest(uint32_t phase) const {
  uint64_t furthest = 0;
  for (const Entry& entry : entries_) {
    if (entry.phase == phase && entry.state != WorkerState::kNegotiate) furthest = std::max(furthest, entry.next);
  }
  return furthest;
}

bool ReportTable::IsFresh(const Entry& entry, uint32_t phase, TimePoint now) {
  return entry.any && entry.phase == phase && now.MsSince(entry.heard) <= kStaleMs;
}

std::vector<ReportTable::InFlight> ReportTable::LongInFlight(uint32_t phase, TimePoint now) const {
  std::vector<InFlight> found;
  for (size_t r = 0; r < entries_.size(); ++r) {
    const Entry& e = entries_[r];
    if (!IsFresh(e, phase, now) || e.in_flight_ms < kInFlightMs || e.state == WorkerState::kHalted) continue;
    // What a replay has started and the end of it has left is known to the controller in other ways.
    if (e.in_flight_item == 0 && (e.state != WorkerState::kReplay || e.next == 0)) continue;
    found.push_back({Rank(static_cast<int32_t>(r)), e.in_flight_item, e.in_flight_process_set,
                     e.names == nullptr ? "" : e.names->in_flight,
                     TimePoint(e.heard.ns() - int64_t{e.in_flight_ms} * 1000000)});
  }
  return found;
}

std::vector<OpenWait> ReportTable::ReplayWaits(uint32_t phase, const Period& period, TimePoint now) const {
  OpenWait wait;
  uint64_t furthest = 0;
  int64_t age_ms = 0;
  for (size_t r = 0; r < entries_.size(); ++r) {
    const Entry& e = entries_[r];
    if (!IsFresh(e, phase, now) || e.state != WorkerState::kReplay || e.in_flight_ms < kWaitingMs) continue;
    // It is in something that came before the replay.
    if (e.next == 0 || e.in_flight_item != 0) continue;
    wait.ready.Add(Rank(static_cast<int32_t>(r)));
    furthest = std::max(furthest, e.next);
    age_ms = std::max(age_ms, e.in_flight_ms + now.MsSince(e.heard));
  }
  if (wait.ready.empty()) return {};
  for (int r = 0; r < size_; ++r) {
    const Entry& e = entries_[r];
    if (wait.ready.Contains(Rank(r)) || (e.any && e.phase == phase && e.next >= furthest)) continue;
    wait.missing.Add(Rank(r));
  }
  if (wait.missing.empty()) return {};
  wait.kind = WaitKind::kReplay;
  wait.name = absl::StrCat("batch ", (furthest - 1) % std::max<size_t>(period.batches.size(), 1));
  wait.since = TimePoint(now.ns() - age_ms * 1000000);
  wait.detail = Lacks(wait.missing, period);
  return {std::move(wait)};
}

// As it says itself; one that has submitted nothing of its next batch says nothing.
std::string ReportTable::NamesOf(const Entry& entry, const Period& period) {
  if (entry.names != nullptr && !entry.names->head_missing.empty()) {
    const std::vector<std::string>& names = entry.names->head_missing;
    return NamesText(names, std::max<size_t>(entry.head_missing_count, names.size()));
  }
  if (period.batches.empty()) return "";
  const PeriodBatch& head = period.batches[entry.next % period.batches.size()];
  // It need not be a member of another process set.
  if (head.process_set != 0) return "";
  std::vector<std::string> names;
  for (const Request& request : head.requests) {
    if (names.size() < kNamesMax) names.push_back(request.name);
  }
  return NamesText(names, head.requests.size());
}

// "rank 3 lacks `a` and 2 more; rank 4 has not reported yet".
std::string ReportTable::Lacks(const RankSet& ranks, const Period& period) const {
  struct Same {
    RankSet ranks;
    std::string text;
  };
  std::vector<Same> all;
  for (Rank rank : ranks.ToVector()) {
    const Entry& e = entries_[rank.value()];
    // An old report is as good as a new one: what does not change is not said again.
    std::string text = e.any ? NamesOf(e, period) : "silent";
    const auto same = std::find_if(all.begin(), all.end(), [&](const Same& s) { return s.text == text; });
    if (same != all.end()) {
      same->ranks.Add(rank);
    } else if (all.size() < kLackersMax) {
      all.push_back({{}, std::move(text)});
      all.back().ranks.Add(rank);
    }
  }
  std::string sentence;
  for (const Same& same : all) {
    const bool one = same.ranks.count() == 1;
    absl::StrAppend(&sentence, sentence.empty() ? "" : "; ", RankText(same.ranks.ToVector()),
                    same.text == "silent" ? one ? " has not reported yet" : " have not reported yet"
                    : same.text.empty()   ? one ? " is not that far" : " are not that far"
                                          : absl::StrCat(one ? " lacks " : " lack ", same.text));
  }
  return sentence;
}

}  // namespace farandole::controller::waits
