#include "controller/ready/negotiator.h"

#include <algorithm>
#include <variant>

#include "absl/strings/str_cat.h"
#include "controller/ready/signature_check.h"
#include "controller/types/rank_text.h"
#include "proto/version.h"

namespace farandole::controller::ready {
namespace {

bool Cacheable(OpKind op) {
  return op == OpKind::kAllreduce || op == OpKind::kBroadcast || op == OpKind::kReducescatter ||
         op == OpKind::kAllgather;
}

bool OfSetZeroOnly(OpKind op) {
  return op == OpKind::kJoin || op == OpKind::kAddProcessSet || op == OpKind::kRemoveProcessSet;
}

// What the checks of signatures cannot see, since every member has its own.
absl::optional<std::string> CheckRows(const std::string& name, const AnnouncementTable::Entry& entry) {
  if (entry.common.op == OpKind::kAllgather) {
    const auto negative =
        std::find_if(entry.first_dims.begin(), entry.first_dims.end(), [](int64_t d) { return d < 0; });
    if (negative == entry.first_dims.end()) return absl::nullopt;
    const Rank rank = entry.set->ranks()[negative - entry.first_dims.begin()];
    return absl::StrCat("Negative dimension: rank ", rank.value(), " submitted ", name, " with one");
  }
  if (entry.impossible.empty()) return absl::nullopt;
  const auto& first = *std::min_element(entry.impossible.begin(), entry.impossible.end());
  return absl::StrCat("Invalid ALLTOALL splits: rank ", first.first.value(), " submitted ", name, " ", first.second);
}

// One that this answers; nullptr: it answers none.
const std::string* AnsweredBy(const ItemBody& body) {
  if (const auto* error = std::get_if<ErrorItem>(&body)) return &error->names[0];
  if (const auto* barrier = std::get_if<BarrierDone>(&body)) return &barrier->name;
  if (const auto* changed = std::get_if<SetChanged>(&body)) return &changed->name;
  return nullptr;
}

RankSet SetOf(const std::vector<Rank>& ranks) {
  RankSet set;
  for (Rank rank : ranks) set.Add(rank);
  return set;
}

// By the explicit groups that the ranks have put this request into.
RequestGroups::Parts GroupsOf(const AnnouncementTable::Entry& entry) {
  RequestGroups::Parts parts;
  RankSet alike = entry.announced;
  for (const Deviation& deviation : entry.deviations) {
    alike.Remove(deviation.rank);
    parts[deviation.signature->group][deviation.rank] = deviation.signature->group_size;
  }
  for (Rank rank : alike.ToVector()) parts[entry.common.group][rank] = entry.common.group_size;
  parts.erase("");
  return parts;
}

}  // namespace

Negotiator::Negotiator(int size, const JobConfig& config, log::Outbox* outbox, LeftText left_text, Note note)
    : size_(size),
      cache_capacity_(config.settings.cache_capacity),
      outbox_(outbox),
      left_text_(std::move(left_text)),
      note_(std::move(note)),
      sets_(size),
      table_(size),
      batcher_(
          {config.settings.fusion_threshold_bytes, config.settings.batch_window_ms, config.settings.deterministic}) {
  NotePacers();
}

// ---- what ranks say

bool Negotiator::Announce(absl::Span<const Teller> who, const std::vector<Request>& requests,
                          const std::vector<CachedRequests>& cached, TimePoint now, Actions* actions) {
  std::vector<Rank> ranks;
  ranks.reserve(who.size());
  for (const Teller& teller : who) ranks.push_back(teller.rank);
  bool good = true;
  for (const CachedRequests& slots : cached) good = AnnounceSlots(who, slots, now, actions) && good;
  for (const Request& request : requests) {
    AnnounceOne(ranks, request, nullptr, now, actions);
  }
  SendRefusals();
  return good;
}

bool Negotiator::AnnounceSlots(absl::Span<const Teller> who, const CachedRequests& cached, TimePoint now,
                               Actions* actions) {
  const auto cache = caches_.find(cached.process_set);
  if (cache == caches_.end()) return cached.slots.empty();
  std::vector<Rank> ranks;
  uint64_t received = UINT64_MAX;
  for (const Teller& teller : who) {
    ranks.push_back(teller.rank);
    received = std::min(received, teller.received_through);
  }
  if (who.size() > 1 && received < cache->second.last_defined()) {
    // They may mean different things by one slot.
    bool good = true;
    for (const Teller& teller : who) good = AnnounceSlots({&teller, 1}, cached, now, actions) && good;
    return good;
  }
  for (uint32_t slot : cached.slots) {
    const SignatureCache::Content meant = cache->second.Meant(slot, received);
    if (meant.request == nullptr) return false;
    AnnounceOne(ranks, *meant.request, meant.first_dims, now, actions);
  }
  return true;
}

bool Negotiator::Resolve(const Teller& teller, const std::vector<CachedRequests>& cached,
                         std::vector<Request>* requests) const {
  for (const CachedRequests& slots : cached) {
    const auto cache = caches_.find(slots.process_set);
    for (uint32_t slot : slots.slots) {
      if (cache == caches_.end()) return false;
      const SignatureCache::Content meant = cache->second.Meant(slot, teller.received_through);
      if (meant.request == nullptr) return false;
      requests->push_back(*meant.request);
      Signature& signature = requests->back().signature;
      const SetMembers* set = sets_.Find(slots.process_set);
      if (signature.op == OpKind::kAllgather && set != nullptr && set->Contains(teller.rank)) {
        signature.shape[0] = (*meant.first_dims)[set->PositionOf(teller.rank)];
      }
    }
  }
  return true;
}

void Negotiator::AnnounceOne(const std::vector<Rank>& who, const Request& request,
                             const std::vector<int64_t>* known_dims, TimePoint now, Actions* actions) {
  if (zeros_end_ && request.signature.op == OpKind::kJoin && request.signature.process_set == 0) {
    // Who is still to add zeros says its join again. Others end at once.
    std::vector<Rank> again, others;
    for (Rank rank : who) (zeros_end_->ranks.Contains(rank) ? again : others).push_back(rank);
    if (!again.empty()) Join(again, request, now, actions);
    if (!others.empty()) SetFor(others, request);
    return;
  }
  const SetMembers* set = SetFor(who, request);
  if (set == nullptr) return;
  if (request.signature.op == OpKind::kJoin) return Join(who, request, now, actions);
  if (set->id() == 0) return Enter(*set, who, request, known_dims, now, actions);
  std::vector<Rank> members;
  std::vector<Rank> others;
  for (Rank rank : who) (set->Contains(rank) ? members : others).push_back(rank);
  if (!others.empty()) {
    Refuse(set->id(), request.name, ErrorKind::kMismatch,
           absl::StrCat(RankText(others), others.size() == 1 ? " is no member" : " are no members", " of process set ",
                        set->id(), ", which has ", RankText(set->ranks()), ", but submitted ", request.name, " in it"),
           others);
  }
  if (!members.empty()) Enter(*set, members, request, known_dims, now, actions);
}

void Negotiator::Enter(const SetMembers& set, const std::vector<Rank>& who, const Request& request,
                       const std::vector<int64_t>* known_dims, TimePoint now, Actions* actions) {
  if (!owed_.empty()) owed_.Announced(set.id(), request.name, who);
  if (!request.signature.group.empty() && groups_.some_failed()) {
    RankSet late = SetOf(who);
    if (const auto why = groups_.Late(set.id(), request.signature.group, request.name, &late)) {
      Refuse(set.id(), request.name, why->kind, why->text, late.ToVector());
      std::vector<Rank> others;
      for (Rank rank : who) {
        if (!late.Contains(rank)) others.push_back(rank);
      }
      return others.empty() ? void() : Enter(set, others, request, known_dims, now, actions);
    }
  }
  Entry* entry = table_.Announce(set, who, request, known_dims, now);
  if (entry == nullptr) return;
  const bool complete = Complete(request.name, *entry);
  for (Rank rank : who) note_(rank, entry->since, complete && rank == who.back(), now);
  if (complete) Finish(request.name, entry, now, actions);
}

const SetMembers* Negotiator::SetFor(const std::vector<Rank>& who, const Request& request) {
  const uint32_t id = request.signature.process_set;
  if (!Known(request.signature)) {
    Refuse(
        id, request.name, ErrorKind::kMismatch,
        absl::StrCat(request.name, " has an operation, an element type, a reduction or a device that this controller, ",
                     "release ", kVersion, ", does not know; start one of the release of the workers"),
        who);
    return nullptr;
  }
  const SetMembers* set = sets_.Find(id);
  if (set == nullptr) {
    Refuse(id, request.name, ErrorKind::kMismatch, absl::StrCat("Unknown process set ", id, " for ", request.name),
           who);
    return nullptr;
  }
  if (id != 0 && OfSetZeroOnly(request.signature.op)) {
    Refuse(id, request.name, ErrorKind::kMismatch,
           absl::StrCat(Name(request.signature.op), " concerns all ranks; ", request.name, " named process set ", id),
           who);
    return nullptr;
  }
  if (left_.Intersects(set->set())) {
    Refuse(id, request.name, ErrorKind::kLeft, LeftIn(*set), who);
    return nullptr;
  }
  return set;
}

void Negotiator::Refuse(uint32_t process_set, const std::string& name, ErrorKind kind, std::string text,
                        const std::vector<Rank>& ranks) {
  if (!refusals_.empty()) {
    Refusal& last = refusals_.back();
    if (last.process_set == process_set && last.kind == kind && last.text == text && last.ranks == ranks) {
      last.names.push_back(name);
      return;
    }
  }
  refusals_.push_back({process_set, kind, std::move(text), ranks, {name}});
}

void Negotiator::SendRefusals() {
  for (Refusal& refusal : refusals_) {
    outbox_->Queue(ErrorItem{refusal.process_set, std::move(refusal.names), refusal.kind, std::move(refusal.text)},
                   SetOf(refusal.ranks));
  }
  refusals_.clear();
}

void Negotiator::Join(const std::vector<Rank>& who, const Request& request, TimePoint now, Actions* actions) {
  bool changed = false;
  for (Rank rank : who) changed = joins_.Join(rank, request.name, now) || changed;
  if (!changed) return;
  // Others may have waited for nobody else.
  table_.ForEachWaiting([&](const std::string& name, Entry* entry) {
    if (Complete(name, *entry)) Finish(name, entry, now, actions);
  });
}

void Negotiator::Retain(Rank rank, const std::vector<Request>& requests) {
  table_.Retain(rank, requests);
  const bool joins =
      std::any_of(requests.begin(), requests.end(), [](const Request& r) { return r.signature.op == OpKind::kJoin; });
  if (!joins) joins_.TakeBack(rank);
}

void Negotiator::Owes(Rank rank, const Hello& hello) {
  owed_.Said(rank, hello.taking_back);
  if (owed_.empty()) return;
  for (const Request& request : hello.open_requests) {
    owed_.Announced(request.signature.process_set, request.name, {rank});
  }
}

void Negotiator::Leave(Rank rank) {
  left_.Add(rank);
  const auto over = [&](uint32_t id) { return sets_.Find(id) == nullptr || sets_.Find(id)->Contains(rank); };
  batcher_.Drop(over);
  groups_.Drop(over);
  for (AnnouncementTable::Abandoned& abandoned : table_.Abandon(rank)) {
    const std::string text = LeftIn(*sets_.Find(abandoned.process_set));
    outbox_->Queue(ErrorItem{abandoned.process_set, std::move(abandoned.names), ErrorKind::kLeft, text},
                   std::move(abandoned.ranks));
  }
  joins_.TakeBack(rank);
  if (zeros_end_) zeros_end_->ranks.Remove(rank);
  owed_.Forget(rank);
  if (!joined().empty()) EndZeros();
}

void Negotiator::EndZeros() {
  const RankSet zeros = joined();
  for (const RequestGroups::Waiting& group : groups_.AllWaiting()) {
    // Its other requests would come when the joins have ended.
    RequestGroups::Part part;
    bool has_zeros = false;
    for (const std::string& name : group.names) {
      const RankSet& announced = table_.Find(group.set->id(), name)->announced;
      has_zeros = has_zeros || zeros.CountIn(group.set->set(), announced) > 0;
      for (Rank rank : announced.ToVector()) part[rank] = group.size;
    }
    if (!has_zeros) continue;
    for (Rank rank : Present(*group.set).ToVector()) part[rank] = group.size;
    Fail(*group.set, group.names[0], {{group.name, part}},
         {ErrorKind::kLeft, absl::StrCat("group ", group.name, " is not complete, and ", RankText(zeros.ToVector()),
                                         " can add no more zeros: ", LeftIn(*sets_.Find(0)))});
  }
  zeros_end_ = ZerosEnd{zeros, batcher_.next_unit()};
}

RankSet Negotiator::JoinsEndBehind() const {
  RankSet behind;
  if (!zeros_end_) return behind;
  const RankSet& ranks = zeros_end_->ranks;
  for (const auto& [id, set] : sets_.all()) {
    if (ranks.Intersects(set->set()) && batcher_.AnyBefore(zeros_end_->unit, id)) behind.AddAll(set->set());
  }
  outbox_->ForEachQueued([&](const ItemBody&, const RankSet* to) {
    if (to == nullptr || to->Intersects(ranks)) behind.AddAll(to == nullptr ? RankSet::All(size_) : *to);
  });
  return behind;
}

RankSet Negotiator::EndJoinsOfLeave() {
  if (!zeros_end_ || !JoinsEndBehind().empty()) return {};
  for (const auto& [name, ranks] : joins_.names()) {
    outbox_->Queue(ErrorItem{0, {name}, ErrorKind::kLeft, LeftIn(*sets_.Find(0))}, ranks);
  }
  joins_.Reset();
  const RankSet ranks = zeros_end_->ranks;
  zeros_end_.reset();
  return ranks;
}

void Negotiator::Clear() {
  table_.Clear();
  joins_.Reset();
  groups_.Drop([](uint32_t) { return true; });
  batcher_.Clear();
  zeros_end_.reset();
  owed_.Clear();
}

// ---- what follows from it

bool Negotiator::Complete(const std::string& name, const Entry& entry) const {
  if (entry.ready) return false;
  int absent = entry.set->size() - entry.announced.count();
  if (absent > 0 && !joined().empty()) {
    absent -= owed_.Without(joined(), entry.set->id(), name).CountIn(entry.set->set(), entry.announced);
  }
  return absent == 0;
}

void Negotiator::Finish(const std::string& name, Entry* entry, TimePoint now, Actions* actions) {
  const SetMembers& set = *entry->set;
  const Signature& common = entry->common;
  auto mismatch = FindMismatch({name, common, entry->deviations, entry->announced, set});
  if (!mismatch) mismatch = CheckRows(name, *entry);
  if (mismatch) {
    actions->Because(*mismatch);
    return Fail(set, name, GroupsOf(*entry), {ErrorKind::kMismatch, *mismatch});
  }
  const Signature signature = common;
  switch (signature.op) {
    case OpKind::kBarrier:
      table_.Erase(set.id(), name);
      return outbox_->Queue(BarrierDone{set.id(), name}, To(set));
    case OpKind::kAddProcessSet:
      table_.Erase(set.id(), name);
      return AddSet(name, signature);
    case OpKind::kRemoveProcessSet:
      table_.Erase(set.id(), name);
      return RemoveSet(name, signature);
    default:
      return FinishTensor(name, entry, now);
  }
}

void Negotiator::FinishTensor(const std::string& name, Entry* entry, TimePoint now) {
  const SetMembers& set = *entry->set;
  entry->ready = true;
  ReadyTensor tensor{name, std::move(entry->common), std::move(entry->first_dims)};
  if (tensor.signature.group.empty()) {
    std::vector<ReadyTensor> unit;
    unit.push_back(std::move(tensor));
    return batcher_.Add(set.id(), std::move(unit), now);
  }
  const std::string group = tensor.signature.group;
  const uint32_t size = tensor.signature.group_size;
  RequestGroups::Outcome outcome = groups_.Add(set, std::move(tensor), now);
  if (outcome.verdict == RequestGroups::Verdict::kComplete) {
    batcher_.Add(set.id(), std::move(outcome.members), now);
  } else if (outcome.verdict == RequestGroups::Verdict::kFailed) {
    RequestGroups::Part all;
    for (Rank rank : Present(set).ToVector()) all[rank] = size;
    Fail(set, name, {{group, all}}, {ErrorKind::kMismatch, std::move(outcome.text)});
  }
}

void Negotiator::Fail(const SetMembers& set, const std::string& name, const RequestGroups::Parts& groups,
                      const RequestGroups::Reason& reason) {
  std::vector<std::string> names;
  const RankSet present = Present(set);
  RequestGroups::Parts parts = groups;
  for (auto& [group, part] : parts) {
    for (std::string& ready : groups_.Fail(set.id(), group, present, &part, name, reason))
      names.push_back(std::move(ready));
  }
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  for (const std::string& each : names) table_.Erase(set.id(), each);
  outbox_->Queue(ErrorItem{set.id(), std::move(names), reason.kind, reason.text}, To(set));
  for (const auto& [group, part] : parts) {
    RankSet ranks;
    for (const auto& [rank, size] : part) ranks.Add(rank);
    for (AnnouncementTable::Abandoned& rest : table_.Withdraw(set.id(), group, ranks)) {
      groups_.Ended(set.id(), group, rest.names, rest.ranks);
      outbox_->Queue(ErrorItem{set.id(), std::move(rest.names), reason.kind, reason.text}, std::move(rest.ranks));
    }
  }
}

void Negotiator::AnswerError(const SetMembers& set, std::vector<std::string> names, const std::string& text) {
  outbox_->Queue(ErrorItem{set.id(), std::move(names), ErrorKind::kMismatch, text}, To(set));
}

void Negotiator::AddSet(const std::string& name, const Signature& signature) {
  std::vector<Rank> ranks;
  bool good = !signature.shape.empty();
  for (int64_t rank : signature.shape) {
    good = good && rank >= 0 && rank < size_ && (ranks.empty() || ranks.back().value() < rank);
    if (good) ranks.push_back(Rank(static_cast<int32_t>(rank)));
  }
  if (!good) {
    return AnswerError(*sets_.Find(0), {name},
                       absl::StrCat("Invalid process set: ", name, " has the ranks ", NumbersText(signature.shape),
                                    "; they must ascend, and be from 0 to ", size_ - 1));
  }
  if (const SetMembers* same = sets_.FindRanks(ranks)) {
    return outbox_->Queue(SetChanged{name, {same->id(), same->ranks()}, false, true}, absl::nullopt);
  }
  const SetMembers* set = sets_.Add(std::move(ranks));
  if (set == nullptr) {
    return AnswerError(*sets_.Find(0), {name},
                       absl::StrCat("There are ", ProcessSets::kSetsMax, " process sets already, so ", name,
                                    " cannot be one; remove some"));
  }
  caches_.erase(set->id());
  NotePacers();
  outbox_->Queue(SetChanged{name, {set->id(), set->ranks()}, false, false}, absl::nullopt);
}

std::string Negotiator::OpenIn(uint32_t process_set) const {
  const std::string announced = table_.FirstOf(process_set);
  return announced.empty() ? owed_.FirstOf(process_set) : announced;
}

void Negotiator::RemoveSet(const std::string& name, const Signature& signature) {
  const int64_t id = signature.shape.size() == 1 ? signature.shape[0] : -1;
  const SetMembers* set = id < 0 || id > UINT32_MAX ? nullptr : sets_.Find(static_cast<uint32_t>(id));
  std::string wrong;
  if (set == nullptr) {
    wrong = absl::StrCat("Unknown process set ", NumbersText(signature.shape), ": it cannot be removed");
  } else if (id == 0) {
    wrong = "Process set 0 has all ranks and cannot be removed";
  } else if (const std::string open = OpenIn(set->id()); !open.empty()) {
    wrong = absl::StrCat("Process set ", id, " cannot be removed: ", open,
                         " is still being processed in it; wait for its operations first");
  }
  if (!wrong.empty()) return AnswerError(*sets_.Find(0), {name}, wrong);
  SetChanged changed{name, {set->id(), set->ranks()}, true, false};
  sets_.Remove(set->id());
  groups_.Drop([id](uint32_t each) { return each == id; });
  NotePacers();
  outbox_->Queue(std::move(changed), absl::nullopt);
}

// ---- what is sent

bool Negotiator::NextBatch(uint64_t index, uint64_t stable, TimePoint now, const Held& held, Dispatch* dispatch) {
  std::vector<ReadyTensor> ready;
  uint32_t id;
  if (!batcher_.Next(now, held, &id, &ready)) return false;
  dispatch->set = sets_.Find(id);
  dispatch->batch.process_set = id;
  dispatch->batch.entries.clear();
  dispatch->executed.clear();
  const bool some_joined = inside().Intersects(dispatch->set->set());
  for (ReadyTensor& tensor : ready) {
    table_.Erase(id, tensor.name);
    Request request{std::move(tensor.name), std::move(tensor.signature)};
    SignatureCache::SlotUse use;
    if (cache_capacity_ > 0 && Cacheable(request.signature.op)) {
      use = caches_.try_emplace(id, cache_capacity_).first->second.Dispatch(request, tensor.first_dims, index, stable);
    }
    BatchEntry entry;
    entry.slot = use.slot;
    if (use.slot == 0 || use.defines) {
      entry.name = request.name;
      if (some_joined) entry.signature = request.signature;
    }
    entry.first_dims = std::move(tensor.first_dims);
    dispatch->batch.entries.push_back(std::move(entry));
    dispatch->executed.push_back(std::move(request));
  }
  batcher_.Sent(id, index);
  return true;
}

bool Negotiator::EndJoin() {
  if (joined().count() < size_ || !outbox_->queue_empty() || !batcher_.empty() || !owed_.empty()) return false;
  const std::vector<RequestGroups::Waiting> incomplete = groups_.AllWaiting();
  for (const RequestGroups::Waiting& group : incomplete) {
    Fail(*group.set, group.names[0], {{group.name, {}}},
         {ErrorKind::kMismatch, absl::StrCat("group ", group.name, " is not complete, and all ranks have joined")});
  }
  if (!incomplete.empty()) return true;
  outbox_->Queue(JoinDone{joins_.last()}, absl::nullopt);
  joins_.Reset();
  return true;
}

void Negotiator::Completed(Rank rank, uint64_t through) {
  const auto paced = paced_by_.find(rank);
  if (paced == paced_by_.end()) return;
  for (uint32_t id : paced->second) batcher_.Completed(id, through);
}

void Negotiator::RestoreSets(const std::vector<ProcessSet>& sets, const std::map<uint32_t, uint64_t>& removals) {
  for (const ProcessSet& set : sets) sets_.Restore(set);
  for (const auto& removal : removals) sets_.RestoreRemoval(removal.first, removal.second);
  NotePacers();
}

void Negotiator::NotePacers() {
  paced_by_.clear();
  for (const auto& [id, set] : sets_.all()) paced_by_[set->ranks()[0]].push_back(id);
}

std::vector<uint32_t> Negotiator::Sent(uint64_t last, uint64_t stable) {
  std::vector<uint32_t> removed = sets_.RemovalsSent(last);
  sets_.Stable(stable);
  return removed;
}

// ---- what others ask

RankSet Negotiator::Present(const SetMembers& set) const {
  RankSet present = set.set();
  present.RemoveAll(joined());
  return present;
}

absl::optional<RankSet> Negotiator::To(const SetMembers& set) const {
  if (set.id() == 0) return absl::nullopt;
  return set.set();
}

std::string Negotiator::LeftIn(const SetMembers& set) const {
  std::vector<Rank> left;
  for (Rank rank : left_.ToVector()) {
    if (set.Contains(rank)) left.push_back(rank);
  }
  return left_text_(left);
}

std::string Negotiator::NameIn(uint32_t process_set, uint32_t slot, uint64_t index) const {
  const auto cache = caches_.find(process_set);
  if (cache == caches_.end()) return "";
  const SignatureCache::Content content = cache->second.Meant(slot, index);
  return content.request == nullptr ? "" : content.request->name;
}

std::vector<OpenWait> Negotiator::Waits(size_t max) const {
  std::vector<OpenWait> waits = table_.Waits(joined(), max);
  for (OpenWait& wait : waits) owed_.AddTo(joined(), &wait);
  for (OpenWait& wait : groups_.Waits(max - waits.size())) waits.push_back(std::move(wait));
  if (joined().empty() || joined().count() == size_ || waits.size() == max) return waits;
  OpenWait join;
  join.kind = WaitKind::kJoin;
  join.name = joins_.names()[0].first;
  join.ready = joined();
  join.missing = RankSet::All(size_);
  join.missing.RemoveAll(joined());
  join.since = joins_.since();
  waits.push_back(std::move(join));
  return waits;
}

std::vector<OpenWait> Negotiator::Ready(size_t max) const {
  std::vector<OpenWait> waits = batcher_.Waits(max);
  for (OpenWait& wait : waits) wait.ready = sets_.Find(wait.process_set)->set();
  if (zeros_end_) {
    for (const auto& [name, ranks] : joins_.names()) {
      if (waits.size() >= max) break;
      OpenWait wait;
      wait.kind = WaitKind::kJoin;
      wait.name = name;
      wait.ready = ranks;
      waits.push_back(std::move(wait));
    }
  }
  outbox_->ForEachQueued([&](const ItemBody& body, const RankSet* to) {
    const std::string* const name = AnsweredBy(body);
    if (name == nullptr || waits.size() >= max) return;
    OpenWait wait;
    wait.name = *name;
    wait.ready = to == nullptr ? RankSet::All(size_) : *to;
    waits.push_back(std::move(wait));
  });
  return waits;
}

}  // namespace farandole::controller::ready
