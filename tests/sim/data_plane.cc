#include "tests/sim/data_plane.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole::sim {

void DataPlane::Enter(const Entry& entry, Process* process, Done done) {
  Generation& g = generations_[KeyOf(entry.generation)];
  const InstanceKey key(entry.set, entry.instance.anchor, entry.instance.seq);
  const auto at = g.instances.try_emplace(key).first;
  Meeting& meeting = at->second;
  // Each member waits for those whom it knows as members.
  if (meeting.ranks.empty()) {
    meeting.ranks = *entry.ranks;
    meeting.final = entry.final;
    meeting.parts.reserve(meeting.ranks.size());
  }
  meeting.parts.push_back(Part{entry.rank, process, std::move(done), false, false});
  Random& random = simulation_->random();
  if (meeting.parts.size() == meeting.ranks.size() && *entry.ranks == meeting.ranks) {
    for (Part& part : meeting.parts) Complete(&g, entry.set, &part, random.Skewed(5, 3000));
    g.instances.erase(at);
    return;
  }
  if (entry.alone && random.Percent(50)) {
    return Complete(&g, entry.set, &meeting.parts.back(), random.Skewed(5, 300));
  }
  Notice(&g, &meeting);
}

bool DataPlane::Withdraw(const Entry& entry) {
  Generation& g = generations_[KeyOf(entry.generation)];
  const auto at = g.instances.find(InstanceKey(entry.set, entry.instance.anchor, entry.instance.seq));
  if (at == g.instances.end()) return false;
  Parts& parts = at->second.parts;
  const auto own = std::find_if(parts.begin(), parts.end(), [&](const Part& p) { return p.rank == entry.rank; });
  if (own == parts.end() || own->finished) return false;
  parts.erase(own);
  if (parts.empty()) g.instances.erase(at);
  return true;
}

void DataPlane::Complete(Generation* generation, uint32_t set, Part* part, int64_t after_us) {
  if (part->finished) return;
  // What failed before this fails it, too.
  const auto failed = generation->failed.find(part->rank.value());
  if (failed != generation->failed.end()) return Fail(generation, part, after_us, failed->second, Rank());
  part->finished = true;
  part->well = true;
  TimePoint& last = generation->last[{set, part->rank.value()}];
  const TimePoint when(simulation_->now().ns() + after_us * 1000);
  last = std::max(last, when, [](TimePoint a, TimePoint b) { return a < b; });
  part->process->At(last, [done = std::move(part->done)] { done(absl::OkStatus(), Rank()); });
}

void DataPlane::Fail(Generation* generation, Part* part, int64_t after_us, const absl::Status& status, Rank suspect) {
  if (part->finished) return;
  generation->failed.emplace(part->rank.value(), status);
  part->finished = true;
  part->process->AfterUs(after_us, [done = std::move(part->done), status, suspect] { done(status, suspect); });
}

// Who waits for somebody that is gone is told.
void DataPlane::Notice(Generation* generation, Meeting* meeting) {
  if (!notices_ || meeting->final || generation->gone.empty()) return;
  for (int r : meeting->ranks) {
    if (r >= static_cast<int>(generation->gone.size()) || !generation->gone[r]) continue;
    const auto own = std::find_if(meeting->parts.begin(), meeting->parts.end(),
                                  [r](const Part& part) { return part.rank.value() == r; });
    if (own != meeting->parts.end() && own->well) continue;
    for (Part& part : meeting->parts) {
      Fail(generation, &part, simulation_->random().Skewed(20, 20000),
           absl::UnavailableError(absl::StrCat("the connection to rank ", r, " broke")), Rank(r));
    }
  }
}

void DataPlane::Gone(const GenerationId& generation, Rank rank, const absl::Status& status) {
  Generation& g = generations_[KeyOf(generation)];
  if (static_cast<int>(g.gone.size()) <= rank.value()) g.gone.resize(rank.value() + 1, false);
  g.gone[rank.value()] = true;
  for (auto& [item, meeting] : g.instances) {
    for (Part& part : meeting.parts) {
      if (part.rank == rank) Fail(&g, &part, 20, status, Rank());
    }
    Notice(&g, &meeting);
  }
}

}  // namespace farandole::sim
