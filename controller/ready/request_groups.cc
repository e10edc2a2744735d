#include "controller/ready/request_groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole::controller::ready {

RequestGroups::Outcome RequestGroups::Add(const SetMembers& set, ReadyTensor tensor, TimePoint now) {
  const auto it = groups_.try_emplace({set.id(), tensor.signature.group}).first;
  Group& group = it->second;
  if (group.ready.empty()) {
    group.set = &set;
    group.size = tensor.signature.group_size;
    group.since = now;
  } else if (group.size != tensor.signature.group_size) {
    return {Verdict::kFailed,
            {},
            absl::StrCat("Mismatched groups: group ", tensor.signature.group, " has ", tensor.signature.group_size,
                         " requests according to ", tensor.name, " and ", group.size, " according to ",
                         group.ready[0].name)};
  }
  group.ready.push_back(std::move(tensor));
  if (group.ready.size() < group.size) return {};
  Outcome outcome;
  outcome.verdict = Verdict::kComplete;
  outcome.members = std::move(group.ready);
  std::sort(outcome.members.begin(), outcome.members.end(),
            [](const ReadyTensor& a, const ReadyTensor& b) { return a.name < b.name; });
  groups_.erase(it);
  return outcome;
}

// ---- when one cannot be executed

std::vector<std::string> RequestGroups::Fail(uint32_t process_set, const std::string& group, const Part& part,
                                             const std::string& name, const std::string& text) {
  const Key key(process_set, group);
  std::vector<std::string> names;
  if (const auto it = groups_.find(key); it != groups_.end()) {
    for (ReadyTensor& ready : it->second.ready) names.push_back(std::move(ready.name));
    groups_.erase(it);
  }
  // What an earlier use of the name has left is of no account: all of these ranks are at this one.
  if (const auto it = failed_.find(key); it != failed_.end()) Forget(it);
  failed_[key] = {text, part.size, part.ranks, {}, {}};
  std::vector<std::string> ended = names;
  ended.push_back(name);
  Ended(process_set, group, ended, part.ranks);
  return names;
}

void RequestGroups::Ended(uint32_t process_set, const std::string& group, const std::vector<std::string>& names,
                          const RankSet& ranks) {
  const auto it = failed_.find(Key(process_set, group));
  if (it == failed_.end()) return;
  Failed& failed = it->second;
  for (const std::string& name : names) {
    const auto told = failed.told.try_emplace(name);
    if (told.second) ++told_;
    for (Rank rank : ranks.ToVector()) {
      if (told.first->second.Add(rank) && ++failed.counts[rank] >= failed.size) failed.open.Remove(rank);
    }
  }
  if (failed.open.empty()) Forget(it);
  if (told_ <= kToldMax) return;
  failed_.clear();
  told_ = 0;
}

absl::optional<std::string> RequestGroups::Late(uint32_t process_set, const std::string& group, const std::string& name,
                                                RankSet* ranks) {
  const auto it = failed_.find(Key(process_set, group));
  if (it == failed_.end()) return absl::nullopt;
  Failed& failed = it->second;
  ranks->KeepOnly(failed.open);
  if (const auto told = failed.told.find(name); told != failed.told.end()) {
    // One that it was told of is there again: this is another use of the group's name.
    RankSet anew = *ranks;
    anew.KeepOnly(told->second);
    failed.open.RemoveAll(anew);
    ranks->RemoveAll(anew);
  }
  std::string text = failed.text;
  if (failed.open.empty()) {
    Forget(it);
  } else if (!ranks->empty()) {
    Ended(process_set, group, {name}, *ranks);
  }
  if (ranks->empty()) return absl::nullopt;
  return text;
}

void RequestGroups::Forget(std::map<Key, Failed>::iterator it) {
  told_ -= it->second.told.size();
  failed_.erase(it);
}

// ---- the rest

std::vector<std::pair<uint32_t, std::string>> RequestGroups::TakeAll() {
  std::vector<std::pair<uint32_t, std::string>> names;
  for (auto& [key, group] : groups_) {
    for (ReadyTensor& ready : group.ready) names.emplace_back(key.first, std::move(ready.name));
  }
  groups_.clear();
  return names;
}

void RequestGroups::Drop(const std::function<bool(uint32_t)>& which) {
  for (auto it = groups_.begin(); it != groups_.end();) {
    it = which(it->first.first) ? groups_.erase(it) : std::next(it);
  }
  for (auto it = failed_.begin(); it != failed_.end();) {
    const auto current = it++;
    if (which(current->first.first)) Forget(current);
  }
}

bool RequestGroups::Empty(uint32_t process_set) const {
  const auto first = groups_.lower_bound(Key(process_set, ""));
  return first == groups_.end() || first->first.first != process_set;
}

std::vector<OpenWait> RequestGroups::Waits(size_t max) const {
  std::vector<OpenWait> waits;
  for (const auto& [key, group] : groups_) {
    if (waits.size() >= max) break;
    OpenWait wait;
    wait.kind = WaitKind::kGroup;
    wait.process_set = key.first;
    wait.name = key.second;
    wait.ready = group.set->set();
    wait.since = group.since;
    wait.detail = absl::StrCat(group.ready.size(), " of ", group.size, " requests are ready, the first is `",
                               group.ready[0].name, "`");
    waits.push_back(std::move(wait));
  }
  return waits;
}

}  // namespace farandole::controller::ready
