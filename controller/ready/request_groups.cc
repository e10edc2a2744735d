#include "controller/ready/request_groups.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole::controller::ready {

RequestGroups::Outcome RequestGroups::Add(const SetMembers& set, ReadyTensor tensor, TimePoint now) {
  const auto it = groups_.try_emplace({set.id(), tensor.signature.group}).first;
  Group& group = it->second;
  const auto told = std::find(group.told.begin(), group.told.end(), tensor.name);
  // One of those that were told is there again: this is another use of the group's name.
  if (told != group.told.end()) group = Group();
  if (!group.failed.empty()) return End(it, tensor.name);
  if (group.ready.empty()) {
    group.set = &set;
    group.size = tensor.signature.group_size;
    group.since = now;
  } else if (group.size != tensor.signature.group_size) {
    group.failed = absl::StrCat("Mismatched groups: group ", tensor.signature.group, " has ",
                                tensor.signature.group_size, " requests according to ", tensor.name, " and ",
                                group.size, " according to ", group.ready[0].name);
    return End(it, tensor.name);
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

RequestGroups::Outcome RequestGroups::Fail(const SetMembers& set, const std::string& name, const Signature& signature,
                                           const std::string& text) {
  const auto it = groups_.try_emplace({set.id(), signature.group}).first;
  Group& group = it->second;
  const auto told = std::find(group.told.begin(), group.told.end(), name);
  if (told != group.told.end()) group = Group();
  if (group.size == 0) group.size = signature.group_size;
  if (group.failed.empty()) group.failed = text;
  Outcome outcome = End(it, name);
  outcome.text = text;
  return outcome;
}

RequestGroups::Outcome RequestGroups::End(Groups::iterator it, const std::string& name) {
  Group& group = it->second;
  Outcome outcome;
  outcome.verdict = Verdict::kFailed;
  outcome.text = group.failed;
  for (ReadyTensor& ready : group.ready) outcome.names.push_back(std::move(ready.name));
  outcome.names.push_back(name);
  group.ready.clear();
  group.told.insert(group.told.end(), outcome.names.begin(), outcome.names.end());
  if (group.told.size() >= group.size) groups_.erase(it);
  return outcome;
}

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
}

bool RequestGroups::Empty(uint32_t process_set) const {
  return std::none_of(groups_.begin(), groups_.end(), [&](const auto& key_and_group) {
    return key_and_group.first.first == process_set && !key_and_group.second.ready.empty();
  });
}

std::vector<OpenWait> RequestGroups::Waits(size_t max) const {
  std::vector<OpenWait> waits;
  for (const auto& [key, group] : groups_) {
    if (waits.size() >= max) break;
    if (group.ready.empty()) continue;
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
