#include "controller/job/collective_waits.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "controller/types/rank_text.h"

namespace farandole::controller::job {
namespace {

using InFlight = waits::ReportTable::InFlight;

constexpr size_t kWaitsMax = 16;
// Each costs a look at all members of its process set.
constexpr size_t kLookedAtMax = 64;
// A collective may take some seconds though nobody is in the way.
constexpr int64_t kLongMs = 10000;

class Collectives {
 public:
  Collectives(const members::Roster& roster, const log::ItemLog& log, const MembersOf& members_of)
      : roster_(roster), log_(log), members_of_(members_of), silent_(roster.Silent()) {}

  void Add(const InFlight& one) {
    const RankSet* const members = members_of_(one.process_set);
    // Its report may be older than what it has told of its progress.
    if (members == nullptr || !members->Contains(one.rank) || silent_.Contains(one.rank) ||
        HasEnded(one.rank, one.item)) {
      return;
    }
    Begun& begun = begun_[{one.process_set, one.item}];
    OpenWait& wait = begun.wait;
    if (begun.members == nullptr) {
      begun.members = members;
      begun.item = one.item;
      wait.kind = WaitKind::kCollective;
      wait.process_set = one.process_set;
      wait.number = one.item;
      wait.since = one.since;
    }
    // One that has joined and adds zeros has no name for it.
    if (wait.name.empty()) wait.name = one.name;
    wait.since = std::min(wait.since, one.since);
    wait.ready.Add(one.rank);
  }

  std::vector<OpenWait> Take(TimePoint now) {
    std::vector<Begun*> oldest_first;
    for (auto& [key, begun] : begun_) oldest_first.push_back(&begun);
    std::sort(oldest_first.begin(), oldest_first.end(), [](const Begun* a, const Begun* b) {
      return std::make_pair(a->wait.since, a->wait.number) < std::make_pair(b->wait.since, b->wait.number);
    });
    if (oldest_first.size() > kLookedAtMax) oldest_first.resize(kLookedAtMax);
    std::vector<OpenWait> waits;
    for (Begun* begun : oldest_first) {
      if (waits.size() == kWaitsMax) break;
      FindMissing(begun);
      OpenWait& wait = begun->wait;
      if (!wait.missing.empty() || now.MsSince(wait.since) >= kLongMs) waits.push_back(std::move(wait));
    }
    return waits;
  }

 private:
  struct Begun {
    const RankSet* members = nullptr;
    uint64_t item = 0;
    OpenWait wait;
  };

  bool HasEnded(Rank rank, uint64_t item) const { return item != 0 && roster_.seat(rank).completed_through >= item; }

  void FindMissing(Begun* begun) const {
    OpenWait& wait = begun->wait;
    RankSet silent, late;
    TimePoint silent_since = TimePoint::Infinite();
    for (Rank rank : begun->members->ToVector()) {
      const members::Seat& seat = roster_.seat(rank);
      if (wait.ready.Contains(rank) || seat.gone() || HasEnded(rank, begun->item)) continue;
      if (silent_.Contains(rank)) {
        silent.Add(rank);
        silent_since = std::min(silent_since, seat.silent_since);
      } else if (begun->item != 0 && log_.Lacks(rank, begun->item)) {
        late.Add(rank);
      }
    }
    wait.detail = Detail(silent, late);
    // Whoever has not received it has been missing since it began; others were in it until they fell silent.
    if (late.empty() && !silent.empty()) wait.since = std::max(wait.since, silent_since);
    wait.missing = std::move(silent);
    wait.missing.AddAll(late);
  }

  std::string Detail(const RankSet& silent, const RankSet& late) const {
    if (silent.empty() && late.empty()) return "all have received it";
    std::string text = silent.empty() ? "" : SilentText(silent, roster_);
    if (late.empty()) return text;
    return absl::StrCat(text, text.empty() ? "" : "; ", RankText(late.ToVector()), late.count() == 1 ? " has" : " have",
                        " not received it yet");
  }

  const members::Roster& roster_;
  const log::ItemLog& log_;
  const MembersOf& members_of_;
  const RankSet silent_;
  absl::flat_hash_map<std::pair<uint32_t, uint64_t>, Begun> begun_;
};

}  // namespace

std::string SilentText(const RankSet& silent, const members::Roster& roster) {
  const std::vector<Rank> ranks = silent.ToVector();
  if (ranks.size() > 1) return absl::StrCat(RankText(ranks), " do not answer");
  const members::Seat& seat = roster.seat(ranks[0]);
  return absl::StrCat(RankText(ranks), " ", seat.responsive ? "is out of reach" : seat.unresponsive_cause);
}

std::vector<OpenWait> CollectiveWaits(const std::vector<InFlight>& in_flight, bool replayed,
                                      const members::Roster& roster, const log::ItemLog& log,
                                      const MembersOf& members_of, TimePoint now) {
  Collectives collectives(roster, log, members_of);
  for (const InFlight& one : in_flight) {
    if ((one.item == 0) == replayed) collectives.Add(one);
  }
  return collectives.Take(now);
}

}  // namespace farandole::controller::job
