#include "controller/ready/request_groups.h"

#include <algorithm>

#include "absl/hash/hash.h"
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

std::vector<std::string> RequestGroups::Fail(uint32_t process_set, const std::string& group, const RankSet& present,
                                             Part* part, const std::string& name, const Reason& reason) {
  const Key key(process_set, group);
  RankSet here;
  for (const auto& each : *part) here.Add(each.first);
  std::vector<std::string> names;
  if (const auto it = groups_.find(key); it != groups_.end()) {
    for (ReadyTensor& ready : it->second.ready) names.push_back(std::move(ready.name));
    for (Rank rank : present.ToVector()) part->emplace(rank, it->second.size);
    groups_.erase(it);
  }
  if (failed_.empty()) failed_bytes_ = 0;
  Rests& rests = failed_[key];
  const auto why = std::make_shared<const Reason>(reason);
  RankSet all;
  for (const auto& [rank, size] : *part) {
    rests[rank] = {why, size, {}};
    all.Add(rank);
  }
  failed_bytes_ += sizeof(Key) + sizeof(Rests) + group.size() + reason.text.size() + part->size() * 2 * sizeof(Rest);
  Ended(process_set, group, names, all);
  Ended(process_set, group, {name}, here);
  return names;
}

void RequestGroups::Ended(uint32_t process_set, const std::string& group, const std::vector<std::string>& names,
                          const RankSet& ranks) {
  const auto it = failed_.find(Key(process_set, group));
  if (it == failed_.end()) return;
  for (Rank rank : ranks.ToVector()) {
    const auto rest = it->second.find(rank);
    if (rest == it->second.end()) continue;
    for (const std::string& name : names) {
      if (rest->second.told.insert(absl::Hash<std::string>()(name)).second) failed_bytes_ += 2 * sizeof(uint64_t);
    }
    if (rest->second.told.size() >= rest->second.size) it->second.erase(rest);
  }
  if (it->second.empty()) failed_.erase(it);
  if (failed_bytes_ > kFailedBytesMax) failed_.clear();
}

absl::optional<RequestGroups::Reason> RequestGroups::Late(uint32_t process_set, const std::string& group,
                                                          const std::string& name, RankSet* ranks) {
  const auto it = failed_.find(Key(process_set, group));
  if (it == failed_.end()) return absl::nullopt;
  const uint64_t hash = absl::Hash<std::string>()(name);
  std::shared_ptr<const Reason> why;
  RankSet late;
  for (Rank rank : ranks->ToVector()) {
    const auto rest = it->second.find(rank);
    if (rest == it->second.end()) continue;
    if (rest->second.told.contains(hash)) {
      // One that it was told of is there again: this is another use of the group's name.
      it->second.erase(rest);
    } else if (why == nullptr || why == rest->second.why) {
      why = rest->second.why;
      late.Add(rank);
    }
  }
  *ranks = late;
  if (it->second.empty()) failed_.erase(it);
  if (why == nullptr) return absl::nullopt;
  Ended(process_set, group, {name}, late);
  return *why;
}

// ---- the rest

std::vector<RequestGroups::Waiting> RequestGroups::AllWaiting() const {
  std::vector<Waiting> all;
  for (const auto& [key, group] : groups_) {
    all.push_back({group.set, key.second, group.size, {}});
    for (const ReadyTensor& ready : group.ready) all.back().names.push_back(ready.name);
  }
  return all;
}

void RequestGroups::Drop(const std::function<bool(uint32_t)>& which) {
  for (auto it = groups_.begin(); it != groups_.end();) {
    it = which(it->first.first) ? groups_.erase(it) : std::next(it);
  }
  for (auto it = failed_.begin(); it != failed_.end();) {
    it = which(it->first.first) ? failed_.erase(it) : std::next(it);
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
