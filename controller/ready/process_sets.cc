#include "controller/ready/process_sets.h"

#include <algorithm>

namespace farandole::controller::ready {
namespace {

std::vector<Rank> AllRanks(int size) {
  std::vector<Rank> ranks;
  ranks.reserve(size);
  for (int r = 0; r < size; ++r) ranks.push_back(Rank(r));
  return ranks;
}

}  // namespace

SetMembers::SetMembers(uint32_t id, std::vector<Rank> ranks_rising) : id_(id), ranks_(std::move(ranks_rising)) {
  for (Rank rank : ranks_) set_.Add(rank);
}

int SetMembers::PositionOf(Rank rank) const {
  if (id_ == 0) return rank.value();
  return static_cast<int>(std::lower_bound(ranks_.begin(), ranks_.end(), rank) - ranks_.begin());
}

ProcessSets::ProcessSets(int size) { sets_.emplace(0, std::make_unique<SetMembers>(0, AllRanks(size))); }

const SetMembers* ProcessSets::Find(uint32_t id) const {
  const auto it = sets_.find(id);
  return it == sets_.end() ? nullptr : it->second.get();
}

const SetMembers* ProcessSets::FindRanks(const std::vector<Rank>& ranks_rising) const {
  for (const auto& [id, members] : sets_) {
    if (members->ranks() == ranks_rising) return members.get();
  }
  return nullptr;
}

const SetMembers* ProcessSets::Add(std::vector<Rank> ranks_rising) {
  if (sets_.size() > kSetsMax) return nullptr;
  uint32_t id = 1;
  while (sets_.count(id) > 0 || leaving_.count(id) > 0) ++id;
  return sets_.emplace(id, std::make_unique<SetMembers>(id, std::move(ranks_rising))).first->second.get();
}

void ProcessSets::Remove(uint32_t id) {
  if (sets_.erase(id) > 0) leaving_[id] = 0;
}

std::vector<uint32_t> ProcessSets::RemovalsSent(uint64_t last) {
  std::vector<uint32_t> sent;
  for (auto& [id, index] : leaving_) {
    if (index != 0) continue;
    index = last;
    sent.push_back(id);
  }
  return sent;
}

void ProcessSets::Stable(uint64_t through) {
  for (auto it = leaving_.begin(); it != leaving_.end();) {
    const bool received = it->second != 0 && it->second <= through;
    it = received ? leaving_.erase(it) : std::next(it);
  }
}

void ProcessSets::Restore(const ProcessSet& set) {
  if (set.id == 0) return;
  leaving_.erase(set.id);
  sets_[set.id] = std::make_unique<SetMembers>(set.id, set.ranks);
}

void ProcessSets::RestoreRemoval(uint32_t id, uint64_t index) {
  if (id == 0) return;
  sets_.erase(id);
  leaving_[id] = index;
}

std::vector<ProcessSet> ProcessSets::List() const {
  std::vector<ProcessSet> list;
  for (const auto& [id, members] : sets_) {
    if (id != 0) list.push_back({id, members->ranks()});
  }
  return list;
}

}  // namespace farandole::controller::ready
