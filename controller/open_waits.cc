#include "controller/open_waits.h"

#include <utility>

namespace farandole {
namespace {

OpenWait HaltWait(const ReplayState& replay, int size) {
  OpenWait wait;
  wait.kind = WaitKind::kHalt;
  wait.name = "halt";
  wait.since = replay.halting_since();
  for (Rank rank : replay.Awaited(size)) wait.missing.Add(rank);
  wait.ready = RankSet::All(size);
  wait.ready.RemoveAll(wait.missing);
  return wait;
}

}  // namespace

std::vector<OpenWait> OpenWaits(const Negotiator& negotiator, const ReplayState& replay, const ReportTable& reports,
                                size_t max, TimePoint now) {
  switch (replay.stage()) {
    case ReplayState::Stage::kNegotiate:
      break;
    case ReplayState::Stage::kReplay:
      return reports.ReplayWaits(replay.phase(), replay.period().batches.size(), now);
    case ReplayState::Stage::kHalting:
      if (replay.all_halted()) return {};
      return {HaltWait(replay, reports.size())};
  }
  return negotiator.Waits(max);
}

void FillReplay(const ReportTable& reports, const ReplayState& replay, TimePoint now, JobStatus* status) {
  static constexpr Activity kActivities[] = {Activity::kNegotiating, Activity::kReplaying, Activity::kHalting};
  status->activity = kActivities[static_cast<int>(replay.stage())];
  status->phase = replay.phase();
  if (replay.stage() == ReplayState::Stage::kNegotiate) return;
  ReplayStatus& out = status->replay;
  out.index = replay.index();
  out.batches = static_cast<uint32_t>(replay.period().batches.size());
  for (const PeriodBatch& batch : replay.period().batches) out.tensors += static_cast<uint32_t>(batch.requests.size());
  out.repetitions = out.batches == 0 ? 0 : reports.Furthest(replay.phase()) / out.batches;
  out.age_ms = reports.PhaseAgeMs(replay.phase(), now);
}

}  // namespace farandole
