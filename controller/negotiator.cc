#include "controller/negotiator.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace farandole {

Negotiator::Negotiator(int size) : size_(size), open_(size, 0) {}

Negotiator::Outcome Negotiator::Announce(Rank rank, const Request& request, TimePoint now) {
  const Signature& signature = request.signature;
  auto it = table_.find(KeyView(signature.process_set, request.name));
  if (it == table_.end()) {
    it = table_.emplace(Key(signature.process_set, request.name), std::make_unique<Entry>()).first;
    Entry& fresh = *it->second;
    fresh.common = signature;
    fresh.since = now;
    fresh.sequence = next_sequence_++;
  }
  Entry& entry = *it->second;
  if (entry.ready || !entry.announced.Add(rank)) {
    Outcome outcome;
    outcome.verdict = Verdict::kDuplicate;
    return outcome;
  }
  ++open_[rank.value()];
  Outcome waiting;
  waiting.since = entry.since;
  if (entry.announced.count() > 1 && !SameCollective(entry.common, signature)) {
    entry.deviations.push_back({rank, signature});
  }
  if (signature.op == OpKind::kAllgather && !signature.shape.empty()) {
    if (entry.first_dims.empty()) entry.first_dims.resize(size_, 0);
    entry.first_dims[rank.value()] = signature.shape[0];
  }
  if (entry.announced.count() < size_) return waiting;
  return Finish(it);
}

Negotiator::Outcome Negotiator::Finish(Table::iterator it) {
  Entry& entry = *it->second;
  Outcome outcome;
  outcome.since = entry.since;
  // Each rank's dimension 0 of an allgather is looked at below; everything else is equal where nothing deviates.
  auto mismatch = FindMismatch(it->first.second, entry.common, entry.deviations, size_);
  if (!mismatch && entry.common.op == OpKind::kAllgather) {
    const auto negative =
        std::find_if(entry.first_dims.begin(), entry.first_dims.end(), [](int64_t d) { return d < 0; });
    if (negative != entry.first_dims.end()) {
      mismatch = absl::StrCat("Negative dimension: rank ", negative - entry.first_dims.begin(), " submitted ",
                              it->first.second, " with one");
    }
  }
  if (mismatch) {
    outcome.verdict = Verdict::kMismatch;
    outcome.text = *std::move(mismatch);
    Erase(it);
    return outcome;
  }
  outcome.verdict = Verdict::kReady;
  outcome.ready.name = it->first.second;
  outcome.ready.signature = std::move(entry.common);
  if (outcome.ready.signature.op == OpKind::kAllgather) outcome.ready.first_dims = std::move(entry.first_dims);
  entry.ready = true;
  return outcome;
}

void Negotiator::Close(uint32_t process_set, const std::string& name) {
  auto it = table_.find(KeyView(process_set, name));
  if (it != table_.end()) Erase(it);
}

void Negotiator::Erase(Table::iterator it) {
  const RankSet& announced = it->second->announced;
  if (announced.count() == size_) {
    for (uint32_t& count : open_) --count;
  } else {
    for (Rank rank : announced.ToVector()) --open_[rank.value()];
  }
  table_.erase(it);
}

void Negotiator::Retain(Rank rank, const std::vector<Request>& requests) {
  if (OpenCount(rank) == 0) return;
  absl::flat_hash_set<KeyView> listed;
  for (const Request& r : requests) listed.insert(KeyView(r.signature.process_set, r.name));
  for (auto it = table_.begin(); it != table_.end();) {
    auto current = it++;
    Entry& entry = *current->second;
    if (entry.ready || !entry.announced.Contains(rank) || listed.contains(current->first)) continue;
    Unannounce(&entry, rank);
    if (entry.announced.empty()) table_.erase(current);
  }
}

void Negotiator::Unannounce(Entry* entry, Rank rank) {
  entry->announced.Remove(rank);
  --open_[rank.value()];
  auto& deviations = entry->deviations;
  const auto own =
      std::find_if(deviations.begin(), deviations.end(), [&](const Deviation& d) { return d.rank == rank; });
  if (own != deviations.end()) deviations.erase(own);
  if (entry->announced.empty() || entry->announced.count() > static_cast<int>(deviations.size())) return;
  // Nobody is left who announced the common signature: another one takes its place.
  entry->common = deviations.front().signature;
  deviations.erase(std::remove_if(deviations.begin(), deviations.end(),
                                  [&](const Deviation& d) { return SameCollective(d.signature, entry->common); }),
                   deviations.end());
}

std::vector<Negotiator::Table::const_iterator> Negotiator::InOrder() const {
  std::vector<Table::const_iterator> order;
  order.reserve(table_.size());
  for (auto it = table_.begin(); it != table_.end(); ++it) order.push_back(it);
  std::sort(order.begin(), order.end(), [](const Table::const_iterator& a, const Table::const_iterator& b) {
    return a->second->sequence < b->second->sequence;
  });
  return order;
}

std::vector<Negotiator::Abandoned> Negotiator::Abandon(Rank leaver) {
  std::vector<Abandoned> all;
  for (const auto& it : InOrder()) {
    RankSet ranks = it->second->announced;
    ranks.Remove(leaver);
    if (ranks.empty()) continue;
    // Usually all names are waited for by the same ranks; looking at the last few bounds the work.
    constexpr size_t kLookBack = 8;
    Abandoned* same = nullptr;
    for (size_t i = all.size() > kLookBack ? all.size() - kLookBack : 0; i < all.size() && same == nullptr; ++i) {
      if (all[i].ranks == ranks) same = &all[i];
    }
    if (same == nullptr) {
      all.push_back({{}, std::move(ranks)});
      same = &all.back();
    }
    same->names.push_back(it->first.second);
  }
  Clear();
  return all;
}

void Negotiator::Clear() {
  table_.clear();
  std::fill(open_.begin(), open_.end(), 0);
}

bool Negotiator::Within(const Period& period) const {
  if (table_.empty()) return true;
  absl::flat_hash_map<KeyView, const Signature*> has;
  for (const PeriodBatch& batch : period.batches) {
    for (const Request& r : batch.requests) has[KeyView(batch.process_set, r.name)] = &r.signature;
  }
  return std::all_of(table_.begin(), table_.end(), [&](const auto& entry) {
    const auto it = has.find(entry.first);
    return it != has.end() && entry.second->deviations.empty() && *it->second == entry.second->common;
  });
}

std::vector<OpenWait> Negotiator::Waits(size_t max) const {
  const RankSet all = RankSet::All(size_);
  std::vector<OpenWait> waits;
  for (const auto& it : InOrder()) {
    if (waits.size() >= max) break;
    const Entry& entry = *it->second;
    if (entry.ready) continue;
    OpenWait wait;
    wait.kind = entry.common.op == OpKind::kBarrier ? WaitKind::kBarrier : WaitKind::kTensor;
    wait.process_set = it->first.first;
    wait.name = it->first.second;
    wait.ready = entry.announced;
    wait.missing = all;
    wait.missing.RemoveAll(entry.announced);
    wait.since = entry.since;
    waits.push_back(std::move(wait));
  }
  return waits;
}

}  // namespace farandole
