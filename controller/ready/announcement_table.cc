#include "controller/ready/announcement_table.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

namespace farandole::controller::ready {
namespace {

WaitKind KindOf(OpKind op) {
  if (op == OpKind::kBarrier) return WaitKind::kBarrier;
  const bool set_change = op == OpKind::kAddProcessSet || op == OpKind::kRemoveProcessSet;
  return set_change ? WaitKind::kSetChange : WaitKind::kTensor;
}

size_t BytesOf(const Signature& signature) {
  return sizeof signature + signature.group.size() +
         sizeof(int64_t) * (signature.shape.size() + signature.splits.size());
}

size_t BytesOf(const std::pair<Rank, std::string>& wrong) { return sizeof wrong + wrong.second.size(); }

// What an entry takes that this request begins. The set of ranks has its full size soon.
size_t BytesOf(const SetMembers& set, const Request& request) {
  return sizeof(AnnouncementTable::Key) + sizeof(AnnouncementTable::Entry) + request.name.size() +
         BytesOf(request.signature) + set.ranks().back().value() / 8;
}

// Notes what the members at these positions give to, or expect of, the others.
void NoteRows(AnnouncementTable::Entry* entry, Rank rank, const Request& request,
              const std::vector<int64_t>* known_dims) {
  const Signature& signature = request.signature;
  const SetMembers& set = *entry->set;
  std::vector<int64_t>& dims = entry->first_dims;
  if (signature.op == OpKind::kAllgather && !signature.shape.empty()) {
    if (dims.empty()) dims.resize(set.size(), 0);
    const int position = set.PositionOf(rank);
    dims[position] = known_dims != nullptr ? (*known_dims)[position] : signature.shape[0];
  } else if (signature.op == OpKind::kAlltoall) {
    absl::optional<std::string> wrong = CheckSplits(signature, set.size());
    if (wrong) entry->impossible.emplace_back(rank, *std::move(wrong));
  }
}

}  // namespace

AnnouncementTable::Entry* AnnouncementTable::Announce(const SetMembers& set, absl::Span<const Rank> who,
                                                      const Request& request, const std::vector<int64_t>* known_dims,
                                                      TimePoint now) {
  const Signature& signature = request.signature;
  auto it = table_.find(KeyView(set.id(), request.name));
  // What one call adds to an entry may go beyond the bound.
  if (bytes_ + (it == table_.end() ? BytesOf(set, request) : 0) > bytes_max_) {
    full_ = true;
    return nullptr;
  }
  if (it == table_.end()) {
    it = table_.emplace(Key(set.id(), request.name), std::make_unique<Entry>()).first;
    Entry& fresh = *it->second;
    fresh.set = &set;
    fresh.common = signature;
    fresh.since = now;
    fresh.sequence = next_sequence_++;
    Take(&fresh, BytesOf(set, request));
  }
  Entry& entry = *it->second;
  if (entry.ready) return nullptr;
  const bool same = entry.announced.empty() || SameCollective(entry.common, signature);
  const bool has_rows = signature.op == OpKind::kAllgather || signature.op == OpKind::kAlltoall;
  std::shared_ptr<const Signature> own;
  const size_t wrong_before = entry.impossible.size();
  const size_t dims_before = entry.first_dims.size();
  size_t more = 0;
  bool changed = false;
  for (Rank rank : who) {
    if (!entry.announced.Add(rank)) continue;
    changed = true;
    ++open_[rank.value()];
    if (!same) {
      if (own == nullptr) more += BytesOf(*(own = std::make_shared<const Signature>(signature)));
      entry.deviations.push_back({rank, own});
      more += sizeof(Deviation);
    }
    if (has_rows) NoteRows(&entry, rank, request, known_dims);
  }
  if (!changed) return nullptr;
  for (size_t i = wrong_before; i < entry.impossible.size(); ++i) more += BytesOf(entry.impossible[i]);
  more += (entry.first_dims.size() - dims_before) * sizeof(int64_t);
  Take(&entry, more);
  NoteGroup(it->first, &entry, signature.group);
  entry.common.priority = std::max(entry.common.priority, signature.priority);
  return &entry;
}

void AnnouncementTable::NoteGroup(const Key& key, Entry* entry, const std::string& group) {
  if (group.empty()) return;
  std::vector<std::string>& groups = entry->groups;
  if (std::find(groups.begin(), groups.end(), group) != groups.end()) return;
  groups.push_back(group);
  names_of_groups_[Key(key.first, group)].insert(key.second);
  Take(entry, 2 * (sizeof(Key) + group.size()) + sizeof(Key) + key.second.size());
}

void AnnouncementTable::Take(Entry* entry, size_t bytes) {
  entry->bytes += bytes;
  bytes_ += bytes;
}

AnnouncementTable::Entry* AnnouncementTable::Find(uint32_t process_set, absl::string_view name) {
  const auto it = table_.find(KeyView(process_set, name));
  return it == table_.end() ? nullptr : it->second.get();
}

void AnnouncementTable::Erase(uint32_t process_set, absl::string_view name) {
  const auto it = table_.find(KeyView(process_set, name));
  if (it != table_.end()) Erase(it);
}

void AnnouncementTable::Erase(Table::iterator it) {
  const RankSet& announced = it->second->announced;
  if (announced.count() == static_cast<int>(open_.size())) {
    for (uint32_t& count : open_) --count;
  } else {
    for (Rank rank : announced.ToVector()) --open_[rank.value()];
  }
  for (const std::string& group : it->second->groups) {
    const auto names = names_of_groups_.find(Key(it->first.first, group));
    names->second.erase(it->first.second);
    if (names->second.empty()) names_of_groups_.erase(names);
  }
  bytes_ -= it->second->bytes;
  table_.erase(it);
}

void AnnouncementTable::Clear() {
  table_.clear();
  names_of_groups_.clear();
  bytes_ = 0;
  full_ = false;
  std::fill(open_.begin(), open_.end(), 0);
}

void AnnouncementTable::Retain(Rank rank, const std::vector<Request>& requests) {
  if (OpenCount(rank) == 0) return;
  absl::flat_hash_set<KeyView> listed;
  for (const Request& r : requests) listed.insert(KeyView(r.signature.process_set, r.name));
  for (auto it = table_.begin(); it != table_.end();) {
    auto current = it++;
    Entry& entry = *current->second;
    if (entry.ready || !entry.announced.Contains(rank) || listed.contains(current->first)) continue;
    Unannounce(&entry, rank);
    if (entry.announced.empty()) Erase(current);
  }
}

void AnnouncementTable::Unannounce(Entry* entry, Rank rank) {
  entry->announced.Remove(rank);
  --open_[rank.value()];
  size_t less = 0;
  auto& impossible = entry->impossible;
  const auto wrong =
      std::find_if(impossible.begin(), impossible.end(), [&](const auto& other) { return other.first == rank; });
  if (wrong != impossible.end()) {
    less += BytesOf(*wrong);
    impossible.erase(wrong);
  }
  auto& deviations = entry->deviations;
  const auto own =
      std::find_if(deviations.begin(), deviations.end(), [&](const Deviation& d) { return d.rank == rank; });
  if (own != deviations.end()) {
    less += sizeof(Deviation) + (own->signature.use_count() == 1 ? BytesOf(*own->signature) : 0);
    deviations.erase(own);
  }
  entry->bytes -= less;
  bytes_ -= less;
  if (entry->announced.empty() || entry->announced.count() > static_cast<int>(deviations.size())) return;
  // Nobody is left who announced the common signature: another one takes its place.
  entry->common = *deviations.front().signature;
  deviations.erase(std::remove_if(deviations.begin(), deviations.end(),
                                  [&](const Deviation& d) { return SameCollective(*d.signature, entry->common); }),
                   deviations.end());
}

std::vector<const AnnouncementTable::Table::value_type*> AnnouncementTable::InOrder() const {
  std::vector<const Table::value_type*> order;
  order.reserve(table_.size());
  for (const auto& key_and_entry : table_) order.push_back(&key_and_entry);
  std::sort(order.begin(), order.end(), [](const Table::value_type* a, const Table::value_type* b) {
    return a->second->sequence < b->second->sequence;
  });
  return order;
}

void AnnouncementTable::AddTo(std::vector<Abandoned>* all, const Key& key, RankSet ranks) {
  // Usually all names are waited for by the same ranks; looking at the last few bounds the work.
  constexpr size_t kLookBack = 8;
  for (size_t i = all->size() > kLookBack ? all->size() - kLookBack : 0; i < all->size(); ++i) {
    Abandoned& same = (*all)[i];
    if (same.process_set == key.first && same.ranks == ranks) return same.names.push_back(key.second);
  }
  all->push_back({key.first, {key.second}, std::move(ranks)});
}

std::vector<AnnouncementTable::Abandoned> AnnouncementTable::Withdraw(uint32_t process_set, const std::string& group,
                                                                      const RankSet& ranks) {
  std::vector<Abandoned> all;
  const auto found = names_of_groups_.find(Key(process_set, group));
  if (found == names_of_groups_.end()) return all;
  // In an order that is the same in each run.
  std::vector<std::string> names(found->second.begin(), found->second.end());
  std::sort(names.begin(), names.end());
  for (const std::string& name : names) {
    const Key key(process_set, name);
    Entry* entry = Find(process_set, name);
    if (entry->ready) continue;
    RankSet here = entry->announced;
    if (entry->common.group != group) here.Clear();
    for (const Deviation& deviation : entry->deviations) {
      deviation.signature->group == group ? here.Add(deviation.rank) : here.Remove(deviation.rank);
    }
    here.KeepOnly(ranks);
    if (here.empty()) continue;
    for (Rank rank : here.ToVector()) Unannounce(entry, rank);
    if (entry->announced.empty()) Erase(key.first, key.second);
    AddTo(&all, key, std::move(here));
  }
  return all;
}

std::vector<AnnouncementTable::Abandoned> AnnouncementTable::Abandon(Rank leaver) {
  std::vector<Abandoned> all;
  std::vector<Key> over;
  for (const auto* at : InOrder()) {
    if (!at->second->set->Contains(leaver)) continue;
    over.push_back(at->first);
    RankSet ranks = at->second->announced;
    ranks.Remove(leaver);
    if (ranks.empty()) continue;
    AddTo(&all, at->first, std::move(ranks));
  }
  for (const Key& key : over) Erase(key.first, key.second);
  return all;
}

bool AnnouncementTable::Within(const Period& period) const {
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

void AnnouncementTable::ForEachWaiting(const std::function<void(const std::string&, Entry*)>& fn) {
  std::vector<Key> waiting;
  for (const auto* at : InOrder()) {
    if (!at->second->ready) waiting.push_back(at->first);
  }
  for (const Key& key : waiting) {
    Entry* entry = Find(key.first, key.second);
    if (entry != nullptr && !entry->ready) fn(key.second, entry);
  }
}

std::vector<OpenWait> AnnouncementTable::Waits(const RankSet& joined, size_t max) const {
  std::vector<OpenWait> waits;
  for (const auto* at : InOrder()) {
    if (waits.size() >= max) break;
    const Entry& entry = *at->second;
    if (entry.ready) continue;
    OpenWait wait;
    wait.kind = KindOf(entry.common.op);
    wait.process_set = at->first.first;
    wait.name = at->first.second;
    wait.ready = entry.announced;
    wait.missing = entry.set->set();
    wait.missing.RemoveAll(entry.announced);
    wait.missing.RemoveAll(joined);
    wait.since = entry.since;
    waits.push_back(std::move(wait));
  }
  return waits;
}

std::string AnnouncementTable::FirstOf(uint32_t process_set) const {
  for (const auto* at : InOrder()) {
    if (at->first.first == process_set) return at->first.second;
  }
  return "";
}

}  // namespace farandole::controller::ready
