#include "controller/ready/owed_requests.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "controller/types/rank_text.h"

namespace farandole::controller::ready {
namespace {

// The name is there twice, and a set of ranks has a bit for each up to the greatest.
size_t BytesOf(Rank rank, const std::pair<uint32_t, std::string>& key) {
  constexpr size_t kNodes = 192;
  return kNodes + 2 * key.second.size() + static_cast<size_t>(rank.value()) / 8;
}

}  // namespace

void OwedRequests::Said(Rank rank, const std::vector<RequestName>& taking_back) {
  if (const auto before = said_.find(rank); before != said_.end()) {
    for (const Key& key : before->second) Remove(key, {rank});
    ForgetSaid(rank);
  }
  if (taking_back.empty()) return;
  std::vector<Key>& said = said_[rank];
  for (const RequestName& each : taking_back) {
    said.emplace_back(each.process_set, each.name);
    said_bytes_ += BytesOf(rank, said.back());
    owed_[said.back()].Add(rank);
  }
}

void OwedRequests::ForgetSaid(Rank rank) {
  const auto said = said_.find(rank);
  if (said == said_.end()) return;
  for (const Key& key : said->second) said_bytes_ -= BytesOf(rank, key);
  said_.erase(said);
}

void OwedRequests::Announced(uint32_t process_set, const std::string& name, const std::vector<Rank>& ranks) {
  Remove({process_set, name}, ranks);
}

void OwedRequests::Remove(const Key& key, const std::vector<Rank>& ranks) {
  const auto it = owed_.find(key);
  if (it == owed_.end()) return;
  for (Rank rank : ranks) it->second.Remove(rank);
  if (it->second.empty()) owed_.erase(it);
}

void OwedRequests::Forget(Rank rank) {
  for (auto it = owed_.begin(); it != owed_.end();) {
    it->second.Remove(rank);
    it = it->second.empty() ? owed_.erase(it) : std::next(it);
  }
  ForgetSaid(rank);
}

std::string OwedRequests::FirstOf(uint32_t process_set) const {
  const auto first = owed_.lower_bound({process_set, ""});
  return first == owed_.end() || first->first.first != process_set ? "" : first->first.second;
}

void OwedRequests::AddTo(const RankSet& joined, OpenWait* wait) const {
  if (owed_.empty()) return;
  RankSet owing = joined;
  owing.RemoveAll(Without(joined, wait->process_set, wait->name));
  wait->missing.AddAll(owing);
  if (owing.empty() || !(wait->missing == owing)) return;
  wait->detail = absl::StrCat(RankText(owing.ToVector()), owing.count() == 1 ? " is" : " are",
                              " still taking back what was begun in the replay");
}

RankSet OwedRequests::Without(RankSet ranks, uint32_t process_set, const std::string& name) const {
  if (const auto it = owed_.find({process_set, name}); it != owed_.end()) ranks.RemoveAll(it->second);
  return ranks;
}

}  // namespace farandole::controller::ready
