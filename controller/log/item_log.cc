#include "controller/log/item_log.h"

#include <algorithm>
#include <utility>
#include <variant>

namespace farandole::controller::log {
namespace {

constexpr uint64_t kStepMax = 64;

}  // namespace

ItemLog::ItemLog(GenerationId generation, int members, uint32_t unstable_max)
    : generation_(generation),
      unstable_max_(std::max<uint32_t>(1, unstable_max)),
      step_(std::min(kStepMax, std::max<uint64_t>(1, unstable_max_ / 4))),
      received_(members) {}

ItemLog::ItemLog(GenerationId generation, uint32_t unstable_max, uint64_t last,
                 std::map<uint64_t, std::pair<Item, RankSet>> kept, const std::vector<uint64_t>& received)
    : ItemLog(generation, static_cast<int>(received.size()), unstable_max) {
  last_ = last;
  stable_ = kept.empty() ? last : kept.begin()->first - 1;
  for (size_t r = 0; r < received.size(); ++r) received_[r].through = received[r];
  for (uint64_t index = stable_ + 1; index <= last; ++index) {
    kept_.push_back({});
    Kept& slot = kept_.back();
    slot.to = RankSet();
    const auto it = kept.find(index);
    if (it == kept.end()) continue;  // concerns nobody any more
    slot.item = std::move(it->second.first);
    Note(slot.item);
    slot.to = std::move(it->second.second);
    for (Rank rank : slot.to->ToVector()) received_[rank.value()].sent = index;
  }
}

const Item& ItemLog::Append(uint32_t phase, ItemBody body, const RankSet* to) {
  ++last_;
  kept_.push_back({});
  Kept& kept = kept_.back();
  kept.item.generation = generation_;
  kept.item.phase = phase;
  kept.item.index = last_;
  kept.item.body = std::move(body);
  if (to == nullptr) {
    last_to_all_ = last_;
  } else {
    kept.to = *to;
    for (Rank rank : to->ToVector()) received_[rank.value()].sent = last_;
  }
  Note(kept.item);
  return kept.item;
}

void ItemLog::Note(const Item& item) {
  if (!std::holds_alternative<Resume>(item.body) && !std::holds_alternative<Withdraw>(item.body)) return;
  replay_end_ = item.index;
  replay_end_known_ = 0;
}

bool ItemLog::ReplayEndKnown() {
  const int members = static_cast<int>(received_.size());
  while (replay_end_known_ < members && Effective(replay_end_known_) >= replay_end_) ++replay_end_known_;
  return replay_end_known_ == members;
}

uint64_t ItemLog::Effective(int rank) {
  Progress& p = received_[rank];
  const bool lacks_nothing = p.released || p.through >= LastSent(p);
  p.effective = std::max(p.effective, lacks_nothing ? last_ : p.through);
  return p.effective;
}

bool ItemLog::Received(Rank rank, uint64_t through) {
  if (through > last_) return false;
  Progress& p = received_[rank.value()];
  p.through = std::max(p.through, through);
  if (rank.value() == laggard_) Advance();
  return true;
}

void ItemLog::Release(Rank rank) {
  received_[rank.value()].released = true;
  Advance();
}

void ItemLog::Advance() {
  const int members = static_cast<int>(received_.size());
  while (last_ >= stable_ + step_) {
    while (passed_ < members && Effective(laggard_) >= stable_ + step_) {
      laggard_ = (laggard_ + 1) % members;
      ++passed_;
    }
    if (passed_ < members) return;
    uint64_t least = last_;
    for (int r = 0; r < members; ++r) {
      if (Effective(r) >= least) continue;
      least = Effective(r);
      laggard_ = r;
    }
    passed_ = 0;
    const auto end = kept_.begin() + static_cast<int64_t>(least - stable_);
    // A LeaveDone is retained by the leaver alone, who hears nothing more: else ten thousand that leave would be told
    // of each other's.
    stable_risen_ = stable_risen_ || std::any_of(kept_.begin(), end, [](const Kept& kept) {
                      return !std::holds_alternative<LeaveDone>(kept.item.body);
                    });
    kept_.erase(kept_.begin(), end);
    stable_ = least;
  }
}

absl::optional<uint64_t> ItemLog::TakeStable() {
  if (!std::exchange(stable_risen_, false)) return absl::nullopt;
  return stable_;
}

bool ItemLog::Lacks(Rank rank, uint64_t index) const {
  const Progress& progress = received_[rank.value()];
  if (index <= stable_ || index > last_ || progress.released || progress.through >= index) return false;
  const Kept& kept = kept_[index - stable_ - 1];
  return kept.to ? kept.to->Contains(rank) : index <= progress.to_all_through;
}

bool ItemLog::ForEachAbove(Rank rank, uint64_t through, const std::function<void(const Item&)>& fn) const {
  if (through < stable_ && through < received_[rank.value()].through) return false;
  if (through < stable_ && received_[rank.value()].released) return false;
  for (const Kept& kept : kept_) {
    if (kept.item.index <= through) continue;
    if (kept.to ? kept.to->Contains(rank) : kept.item.index <= received_[rank.value()].to_all_through) fn(kept.item);
  }
  return true;
}

}  // namespace farandole::controller::log
