#include "controller/waits/open_waits.h"

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

// Whoever has started the instance, or has announced this request of it, waits for the others. Some of an instance's
// requests may have nobody to wait for.
std::vector<OpenWait> EnterWaits(const replay::BegunList& begun, const replay::ReplayState& replay, size_t max) {
  std::vector<OpenWait> waits;
  for (const replay::BegunList::Instance& instance : begun.instances()) {
    for (size_t i = 0; i < instance.requests.size() && waits.size() < max; ++i) {
      OpenWait wait;
      wait.kind = WaitKind::kEnter;
      wait.process_set = instance.process_set;
      wait.name = instance.requests[i].name;
      wait.since = replay.halting_since();
      wait.ready = instance.started;
      wait.ready.AddAll(instance.heard[i]);
      wait.missing = instance.members;
      wait.missing.RemoveAll(wait.ready);
      wait.missing.RemoveAll(instance.covered);
      if (!wait.missing.empty()) waits.push_back(std::move(wait));
    }
  }
  return waits;
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
  std::vector<OpenWait> waits = EnterWaits(begun, replay, max);
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
