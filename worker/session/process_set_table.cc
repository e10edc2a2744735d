#include "worker/session/process_set_table.h"

#include <algorithm>
#include <utility>

namespace farandole::worker::session {

void ProcessSetTable::Reset(const std::vector<Member>& members, Rank self) {
  self_ = self;
  sets_.clear();
  ProcessSet all;
  for (const Member& member : members) all.ranks.push_back(member.rank);
  Add(std::move(all));
}

void ProcessSetTable::Add(ProcessSet set) {
  std::sort(set.ranks.begin(), set.ranks.end());
  const uint32_t id = set.id;
  sets_[id] = std::move(set);
}

void ProcessSetTable::Remove(uint32_t id) {
  if (id != 0) sets_.erase(id);
}

const ProcessSet* ProcessSetTable::Find(uint32_t id) const {
  auto it = sets_.find(id);
  return it == sets_.end() ? nullptr : &it->second;
}

bool ProcessSetTable::Includes(uint32_t id) const {
  const ProcessSet* set = Find(id);
  return set != nullptr && std::binary_search(set->ranks.begin(), set->ranks.end(), self_);
}

std::vector<ProcessSet> ProcessSetTable::Made() const {
  std::vector<ProcessSet> made;
  for (const auto& [id, set] : sets_) {
    if (id != 0) made.push_back(set);
  }
  return made;
}

}  // namespace farandole::worker::session
