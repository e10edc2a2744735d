#include "tests/sim/data_plane.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::sim {

void DataPlane::Enter(const GenerationId& generation, uint64_t item, Rank rank, int size, bool alone, Process* process,
                      Done done) {
  Generation& g = generations_[KeyOf(generation)];
  g.gone.resize(size, false);
  Members& members = g.instances[item];
  Part& own = members[rank.value()];
  own = Part{process, std::move(done), false, false};
  Random& random = simulation_->random();
  if (static_cast<int>(members.size()) == size) {
    for (auto& [r, part] : members) Finish(&part, random.Skewed(5, 3000), absl::OkStatus(), Rank());
    g.instances.erase(item);
    return;
  }
  if (alone && random.Percent(50)) return Finish(&own, random.Skewed(5, 300), absl::OkStatus(), Rank());
  Notice(&g, &members);
}

void DataPlane::Finish(Part* part, int64_t after_us, const absl::Status& status, Rank suspect) {
  if (part->finished) return;
  part->finished = true;
  part->well = status.ok();
  part->process->AfterUs(after_us, [done = std::move(part->done), status, suspect] { done(status, suspect); });
}

// Who waits for somebody that is gone is told.
void DataPlane::Notice(Generation* generation, Members* members) {
  if (!notices_) return;
  for (int r = 0; r < static_cast<int>(generation->gone.size()); ++r) {
    const auto own = members->find(r);
    if (!generation->gone[r] || (own != members->end() && own->second.well)) continue;
    for (auto& [rank, part] : *members) {
      Finish(&part, simulation_->random().Skewed(20, 20000),
             absl::UnavailableError(absl::StrCat("the connection to rank ", r, " broke")), Rank(r));
    }
  }
}

void DataPlane::Gone(const GenerationId& generation, Rank rank, const absl::Status& status) {
  Generation& g = generations_[KeyOf(generation)];
  if (static_cast<int>(g.gone.size()) <= rank.value()) g.gone.resize(rank.value() + 1, false);
  g.gone[rank.value()] = true;
  for (auto& [item, members] : g.instances) {
    const auto own = members.find(rank.value());
    if (own != members.end()) Finish(&own->second, 20, status, Rank());
    Notice(&g, &members);
  }
}

}  // namespace farandole::sim
