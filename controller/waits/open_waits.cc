#include "controller/waits/open_waits.h"

#include <algorithm>
#include <utility>

namespace farandole::controller::waits {
namespace {

OpenWait HaltWait(const replay::ReplayState& replay, int size) {
  OpenWait wait;
  wait.kind = WaitKind::kHalt;
  wait.name = "halt";
  wait.since = replay.halting_since();
  for (Rank rank : replay.Awaited(size)) wait.missing.Add(rank);
  wait.ready = RankSet::All(size);
  wait.ready.RemoveAll(wait.missing);
  return wait;
}

// What begun instances that are kept hold back until somebody has entered them. Of one that can be withdrawn and lacks
// somebody nothing is said: it will be, as soon as it holds back anything (C3b).
class Holds {
 public:
  explicit Holds(const replay::BegunList& begun) {
    const std::vector<const replay::BegunList::Instance*> kept = begun.KeptFor();
    for (size_t i = 0; i < kept.size(); ++i) {
      const replay::BegunList::Instance& instance = begun.instances()[i];
      RankSet lacking = instance.members;
      lacking.RemoveAll(instance.covered);
      if (kept[i] != nullptr || lacking.empty()) {
        // It has to come after those (C2).
        lacking.AddAll(Back(instance.members));
      } else {
        lacking.Clear();
      }
      holds_.push_back({kept[i] != nullptr, instance.started, std::move(lacking)});
    }
  }
  // Who has to enter something before an item may go to these, since one of them is busy (C1).
  RankSet Back(const RankSet& members) const {
    RankSet lacking;
    for (const Hold& hold : holds_) {
      if (hold.kept && hold.started.Intersects(members)) lacking.AddAll(hold.lacking);
    }
    return lacking;
  }
  // Who has to submit something before the instance is entered at its other members.
  const RankSet& LackedBy(size_t instance) const { return holds_[instance].lacking; }

 private:
  struct Hold {
    bool kept;
    RankSet started;
    RankSet lacking;
  };
  std::vector<Hold> holds_;  // by instance
};

// Whoever has started the instance, or has announced this request of it, waits for the others. A request that nobody
// lacks waits for the rest of its instance.
std::vector<OpenWait> EnterWaits(const replay::BegunList& begun, const Holds& holds, TimePoint since, size_t max) {
  std::vector<OpenWait> waits;
  for (size_t n = 0; n < begun.instances().size(); ++n) {
    const replay::BegunList::Instance& instance = begun.instances()[n];
    for (size_t i = 0; i < instance.requests.size() && waits.size() < max; ++i) {
      OpenWait wait;
      wait.kind = WaitKind::kEnter;
      wait.process_set = instance.process_set;
      wait.name = instance.requests[i].name;
      wait.since = since;
      wait.ready = instance.started;
      wait.ready.AddAll(instance.heard[i]);
      wait.missing = instance.members;
      wait.missing.RemoveAll(wait.ready);
      wait.missing.RemoveAll(instance.covered);
      if (wait.missing.empty()) {
        wait.kind = WaitKind::kHeld;
        wait.missing = holds.LackedBy(n);
      }
      if (!wait.missing.empty()) waits.push_back(std::move(wait));
    }
  }
  return waits;
}

// What all have announced and busy members hold back.
void AddHeld(const ready::Negotiator& negotiator, const Holds& holds, TimePoint since, size_t max,
             std::vector<OpenWait>* waits) {
  for (OpenWait& wait : negotiator.Ready(max - waits->size())) {
    RankSet concerned = wait.ready;
    if (wait.kind == WaitKind::kJoin) {
      concerned = negotiator.JoinsEndBehind();
      concerned.AddAll(negotiator.inside());
    }
    wait.missing = holds.Back(concerned);
    wait.kind = WaitKind::kHeld;
    wait.since = std::max(wait.since, since);
    if (!wait.missing.empty()) waits->push_back(std::move(wait));
  }
}

}  // namespace

std::vector<OpenWait> OpenWaits(const ready::Negotiator& negotiator, const replay::ReplayState& replay,
                                const replay::BegunList& begun, const ReportTable& reports, size_t max, TimePoint now) {
  switch (replay.stage()) {
    case replay::ReplayState::Stage::kNegotiate:
      break;
    case replay::ReplayState::Stage::kReplay:
      return reports.ReplayWaits(replay.phase(), replay.period(), now);
    case replay::ReplayState::Stage::kHalting:
      if (replay.all_halted()) return {};
      return {HaltWait(replay, reports.size())};
  }
  if (begun.empty()) return negotiator.Waits(max);
  const Holds holds(begun);
  std::vector<OpenWait> waits = EnterWaits(begun, holds, replay.halting_since(), max);
  AddHeld(negotiator, holds, replay.halting_since(), max, &waits);
  for (OpenWait& wait : negotiator.Waits(max - waits.size())) waits.push_back(std::move(wait));
  return waits;
}

void FillReplay(const ReportTable& reports, const replay::ReplayState& replay, TimePoint now, JobStatus* status) {
  static constexpr Activity kActivities[] = {Activity::kNegotiating, Activity::kReplaying, Activity::kHalting};
  status->activity = kActivities[static_cast<int>(replay.stage())];
  status->phase = replay.phase();
  if (replay.stage() == replay::ReplayState::Stage::kNegotiate) return;
  ReplayStatus& out = status->replay;
  out.index = replay.index();
  out.batches = static_cast<uint32_t>(replay.period().batches.size());
  for (const PeriodBatch& batch : replay.period().batches) out.tensors += static_cast<uint32_t>(batch.requests.size());
  out.repetitions = out.batches == 0 ? 0 : reports.Furthest(replay.phase()) / out.batches;
  out.age_ms = reports.PhaseAgeMs(replay.phase(), now);
}

}  // namespace farandole::controller::waits
