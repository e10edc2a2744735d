#include "controller/replay/replay_state.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace farandole::controller::replay {

void ReplayState::Begin(uint64_t index, Period period) {
  ++phase_;
  stage_ = Stage::kReplay;
  index_ = index;
  period_ = std::move(period);
}

void ReplayState::Restore(uint32_t phase, uint64_t index, Period period, TimePoint now) {
  phase_ = phase;
  stage_ = phase % 2 == 0 ? Stage::kNegotiate : Stage::kReplay;
  index_ = index;
  period_ = std::move(period);
  halting_since_ = now;
}

void ReplayState::Halt(TimePoint now) {
  stage_ = Stage::kHalting;
  halted_.Clear();
  halting_since_ = now;
}

void ReplayState::Halted(Rank rank, uint64_t next) {
  if (halted_.Add(rank)) next_[rank.value()] = next;
}

std::vector<Rank> ReplayState::Awaited(size_t max) const {
  if (stage_ != Stage::kHalting) return {};
  return halted_.Absent(static_cast<int32_t>(next_.size()), 0, max);
}

uint64_t ReplayState::Repetitions() const {
  return *std::max_element(next_.begin(), next_.end()) / period_.batches.size();
}

absl::optional<std::vector<Begun>> ReplayState::FindBegun(const MembersOf& members_of) const {
  const uint64_t length = period_.batches.size();
  absl::flat_hash_map<uint32_t, std::vector<uint64_t>> positions;  // in the period, by set
  for (uint64_t i = 0; i < length; ++i) positions[period_.batches[i].process_set].push_back(i);
  std::map<uint64_t, Begun> begun;
  for (const auto& entry : positions) {
    const std::vector<Rank> members = members_of(entry.first)->ToVector();
    const auto next_of = [this](Rank r) { return next_[r.value()]; };
    uint64_t least = next_of(members.front()), greatest = least;
    for (Rank r : members) {
      least = std::min(least, next_of(r));
      greatest = std::max(greatest, next_of(r));
    }
    // Counting on from there would begin anew.
    if (greatest > UINT64_MAX - length) return absl::nullopt;
    size_t count = 0;
    for (uint64_t base = least - least % length; base < greatest; base += length) {
      for (uint64_t position : entry.second) {
        const uint64_t seq = base + position;
        if (seq < least || seq >= greatest) continue;
        if (++count > kBegunPerSetMax) return absl::nullopt;
        Begun& instance = begun[seq];
        instance.seq = seq;
        for (Rank r : members) {
          if (next_of(r) > seq) instance.started.push_back(r);
        }
      }
    }
  }
  std::vector<Begun> list;
  for (auto& entry : begun) list.push_back(std::move(entry.second));
  return list;
}

void ReplayState::Resume() {
  ++phase_;
  stage_ = Stage::kNegotiate;
  std::fill(next_.begin(), next_.end(), 0);
  halted_.Clear();
}

}  // namespace farandole::controller::replay
