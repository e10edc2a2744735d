#include "tests/sim/execution_checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole::sim {
namespace {

std::string Who(const GenerationId& id, Rank rank, const worker::session::Work& work) {
  return absl::StrCat("instance (", work.instance.anchor, ",", work.instance.seq, ") of set ", work.process_set,
                      " in generation ", id.number, " of controller ", id.controller_incarnation, " at rank ",
                      rank.value());
}

std::string Text(const std::vector<uint64_t>& labels) {
  std::string text;
  for (uint64_t label : labels) absl::StrAppend(&text, " ", label >> 24, "/", (label & 0xffffff) - 1);
  return text;
}

bool IsFinal(const worker::session::Work& work) {
  for (size_t i = 0; i < work.operations.size(); ++i) {
    if (work.signature(i).device != DeviceKind::kHost) return true;
  }
  return false;
}

int64_t FirstDimension(const Request& request) {
  return request.signature.shape.empty() ? 0 : request.signature.shape[0];
}

}  // namespace

ExecutionChecker::CallRecord* ExecutionChecker::CallTable::LookUp(uint64_t label) {
  const auto it = places_.find(label);
  if (it == places_.end()) return nullptr;
  records_[last_].next = it->second;
  last_ = it->second;
  return &records_[last_];
}

ExecutionChecker::CallRecord* ExecutionChecker::CallTable::Get(uint64_t label) {
  CallRecord* const known = Find(label);
  if (known != nullptr) return known;
  if (free_.empty()) {
    free_.push_back(static_cast<uint32_t>(records_.size()));
    records_.emplace_back();
  }
  const uint32_t place = free_.back();
  free_.pop_back();
  places_.emplace(label, place);
  records_[place].label = label;
  return Find(label);
}

void ExecutionChecker::CallTable::Erase(CallRecord* record) {
  places_.erase(record->label);
  free_.push_back(static_cast<uint32_t>(record - records_.data()));
  *record = CallRecord();
}

ExecutionChecker::Generation& ExecutionChecker::Find(const GenerationId& id) {
  if (found_ == nullptr || id != found_id_) {
    found_id_ = id;
    found_ = &generations_[{id.controller_incarnation, id.number}];
  }
  return *found_;
}

void ExecutionChecker::Joined(const GenerationId& id, int size) {
  Generation& g = Find(id);
  if (g.size != 0) return;
  g.size = size;
  g.joined.resize(size, false);
  for (std::vector<size_t>& of_kind : g.in_flight) of_kind.resize(size, 0);
  SetRecord& all = g.sets[0];
  for (int r = 0; r < size; ++r) all.ranks.push_back(r);
  all.position.resize(size, 0);
  all.started.resize(size, 0);
}

void ExecutionChecker::SetChanged(const GenerationId& id, Rank rank, uint32_t set, const std::vector<int>& ranks) {
  Generation& g = Find(id);
  if (ranks.empty()) return;
  SetRecord& record = g.sets[set];
  if (record.ranks == ranks) return;
  // The id of a removed set may mean another one, once its last batches are completed everywhere.
  const bool fresh = record.ranks.empty();
  for (const auto& [key, instance] : g.instances) {
    if (!fresh && std::get<0>(key) == set) {
      verdict_->Fail(absl::StrCat("rank ", rank.value(), " hears that set ", set,
                                  " means other ranks while its old members are inside instance (", std::get<1>(key),
                                  ",", std::get<2>(key), ")"));
    }
  }
  record = SetRecord();
  record.ranks = ranks;
  record.position.resize(g.size, 0);
  record.started.resize(g.size, 0);
}

void ExecutionChecker::Submitted(const GenerationId& id, Rank rank, const Submission::Many& submissions) {
  Generation& g = Find(id);
  for (const auto& operation : submissions) {
    const Submission& submission = Submission::Of(*operation);
    const OpKind op = submission.request.signature.op;
    if (op == OpKind::kJoin) g.joined[rank.value()] = true;
    CallRecord& call = *g.calls.Get(submission.label);
    if (call.by.empty()) call.by.resize(g.size, false);
    call.by[rank.value()] = true;
    ++call.submitted;
    if (op != OpKind::kAllgather) continue;
    call.dims.resize(g.size, 0);
    call.dims[rank.value()] = FirstDimension(submission.request);
  }
}

void ExecutionChecker::Answered(const GenerationId& id, Rank rank, const Submission::Many& submissions, bool by_item) {
  Generation& g = Find(id);
  for (const auto& operation : submissions) {
    if (operation == nullptr || operation->done()) continue;
    const Submission& submission = Submission::Of(*operation);
    // Otherwise what was dispatched before may still be on its way to others.
    if (by_item && submission.request.signature.op == OpKind::kJoin) g.joined[rank.value()] = false;
    CallRecord* const call = g.calls.Find(submission.label);
    if (call != nullptr && ++call->answered == g.size) g.calls.Erase(call);
  }
}

ExecutionChecker::SetRecord* ExecutionChecker::FindSet(Generation* g, Rank rank, uint32_t set) {
  const auto it = g->sets.find(set);
  if (it != g->sets.end()) {
    const std::vector<int>& ranks = it->second.ranks;
    const auto own = static_cast<size_t>(rank.value());
    if (own < ranks.size() && ranks[own] == rank.value()) return &it->second;  // as in the set of all
    if (std::binary_search(ranks.begin(), ranks.end(), rank.value())) return &it->second;
  }
  verdict_->Fail(absl::StrCat("rank ", rank.value(), " has to do with set ", set, ", of which it is no member"));
  return nullptr;
}

void ExecutionChecker::CheckSubmitted(Generation* g, const SetRecord& set, const std::vector<bool>& zeros,
                                      const worker::session::Work& work, size_t i, const Namer& who) {
  if (work.operations[i] == nullptr) return;
  const Submission& submission = Submission::Of(*work.operations[i]);
  const CallRecord* const found = g->calls.Find(submission.label);
  if (found == nullptr) return verdict_->Fail(absl::StrCat(who(), " holds what nobody has open"));
  const CallRecord& call = *found;
  if (call.submitted < static_cast<int>(set.ranks.size())) {
    for (int r : set.ranks) {
      if (call.by[r] || zeros[r]) continue;
      verdict_->Fail(
          absl::StrCat("I2: ", who(), " holds ", submission.request.name, ", which rank ", r, " has not submitted"));
    }
  }
  if (submission.request.signature.op != OpKind::kAllgather) return;
  for (size_t p = 0; p < set.ranks.size(); ++p) {
    if (i < work.first_dims.size() && work.first_dims[i].size() == set.ranks.size() && call.by[set.ranks[p]] &&
        work.first_dims[i][p] == call.dims[set.ranks[p]]) {
      continue;
    }
    return verdict_->Fail(absl::StrCat("allgather ", submission.request.name,
                                       " was dispatched with other first dimensions than were submitted"));
  }
}

void ExecutionChecker::Taken(const GenerationId& id, Rank rank, const worker::session::Work& work) {
  if (work.kind != worker::session::Work::Kind::kBatch && work.kind != worker::session::Work::Kind::kBarrierDone)
    return;
  Generation& g = Find(id);
  const Namer who = [&] { return Who(id, rank, work); };
  const SetRecord* set = FindSet(&g, rank, work.process_set);
  for (size_t i = 0; set != nullptr && i < work.operations.size(); ++i)
    CheckSubmitted(&g, *set, g.joined, work, i, who);
}

void ExecutionChecker::Started(const GenerationId& id, Rank rank, const worker::session::Work& work) {
  Generation& g = Find(id);
  const Namer who = [&] { return Who(id, rank, work); };
  SetRecord* set = FindSet(&g, rank, work.process_set);
  if (set == nullptr) return;
  const InstanceKey key(work.process_set, work.instance.anchor, work.instance.seq);
  InstanceRecord& instance = g.instances[key];
  if (instance.started.empty()) {
    instance.started.resize(g.size, false);
    instance.zeros.resize(g.size, false);
  }
  if (instance.started[rank.value()]) verdict_->Fail(absl::StrCat("I1: ", who(), " is started twice"));
  instance.started[rank.value()] = true;
  if (work.final != IsFinal(work)) verdict_->Fail(absl::StrCat("I11: ", who(), " is taken for another kind"));
  if (++g.in_flight[work.final][rank.value()] > window_.For(work.final)) {
    verdict_->Fail(absl::StrCat("I4: ", who(), " is one too many in flight"));
  }
  CheckComposition(id, rank, work, &instance);
  CheckGroups(work, who);
  CheckLead(work, rank, set, who);
}

void ExecutionChecker::CheckComposition(const GenerationId& id, Rank rank, const worker::session::Work& work,
                                        InstanceRecord* instance) {
  std::vector<uint64_t>& labels = instance->labels;
  if (labels.empty()) labels.resize(work.operations.size(), 0);
  bool equal = labels.size() == work.operations.size();
  for (size_t i = 0; equal && i < labels.size(); ++i) {
    if (work.operations[i] == nullptr) {
      instance->zeros[rank.value()] = true;
      instance->zeros_at.emplace_back(i, rank);
      continue;
    }
    const uint64_t label = Submission::Of(*work.operations[i]).label;
    if (labels[i] == 0) labels[i] = label;
    equal = labels[i] == label;
  }
  if (equal) return;
  std::vector<uint64_t> here;
  for (const auto& operation : work.operations) {
    here.push_back(operation == nullptr ? 0 : Submission::Of(*operation).label);
  }
  verdict_->Fail(absl::StrCat("I1, I2: ", Who(id, rank, work), " is", Text(here), ", elsewhere", Text(labels)));
}

// Who has joined adds zeros to what it has not submitted, and to nothing else.
void ExecutionChecker::CheckZeros(Generation* g, const InstanceRecord& instance, const Namer& who) {
  for (const auto& [place, rank] : instance.zeros_at) {
    const CallRecord* const call = g->calls.Find(instance.labels[place]);
    if (call == nullptr || !call->by[rank.value()]) continue;
    verdict_->Fail(absl::StrCat("I2: ", who(), " has zeros of rank ", rank.value(), ", which has submitted its own"));
  }
}

void ExecutionChecker::CheckGroups(const worker::session::Work& work, const Namer& who) {
  for (const auto& operation : work.operations) {
    if (operation == nullptr || operation->request.signature.group.empty()) continue;
    const Signature& s = operation->request.signature;
    const auto same = std::count_if(work.operations.begin(), work.operations.end(), [&](const auto& other) {
      return other != nullptr && other->request.signature.group == s.group;
    });
    if (same == s.group_size) continue;
    return verdict_->Fail(absl::StrCat(who(), " holds ", same, " of ", s.group_size, " members of group ", s.group));
  }
  for (size_t i = 1; i < work.operations.size(); ++i) {
    if (work.signature(i).device == work.signature(0).device || !work.signature(i).group.empty()) continue;
    return verdict_->Fail(absl::StrCat(who(), " has tensors in two kinds of memory"));
  }
}

void ExecutionChecker::Moves(SetRecord* set, Rank rank, int by) {
  int& started = set->started[rank.value()];
  const auto at = set->ranks_by_started.find(started);
  if (at != set->ranks_by_started.end() && --at->second == 0) set->ranks_by_started.erase(at);
  started += by;
  ++set->ranks_by_started[started];
}

// I4, within one set and one replay: what others have not started cannot have completed here.
void ExecutionChecker::CheckLead(const worker::session::Work& work, Rank rank, SetRecord* set, const Namer& who) {
  if (work.instance.anchor < set->anchor) return;
  if (work.instance.anchor > set->anchor) {
    set->anchor = work.instance.anchor;
    std::fill(set->started.begin(), set->started.end(), 0);
    set->ranks_by_started = {{0, set->ranks.size()}};
  }
  Moves(set, rank, 1);
  const int lead = set->started[rank.value()] - set->ranks_by_started.begin()->first;
  if (lead > static_cast<int>(window_.host + window_.final))
    verdict_->Fail(absl::StrCat("I4: ", who(), " is ", lead, " ahead"));
}

void ExecutionChecker::Completed(const GenerationId& id, Rank rank, const worker::session::Work& work) {
  Generation& g = Find(id);
  const Namer who = [&] { return Who(id, rank, work); };
  SetRecord* set = FindSet(&g, rank, work.process_set);
  if (set == nullptr) return;
  --g.in_flight[work.final][rank.value()];
  const InstanceKey key(work.process_set, work.instance.anchor, work.instance.seq);
  if (g.withdrawn.count(key) != 0) verdict_->Fail(absl::StrCat("I6: ", who(), " completes although it is withdrawn"));
  CheckSequence(work, rank, set, who);
  const auto instance = g.instances.find(key);
  if (instance == g.instances.end() || !instance->second.started[rank.value()]) {
    return verdict_->Fail(absl::StrCat(who(), " completes without having been started"));
  }
  // All have the same composition, so that one look is enough.
  if (++instance->second.completed == 1) {
    g.completed_somewhere.insert(key);
    for (size_t i = 0; i < work.operations.size(); ++i) {
      CheckSubmitted(&g, *set, instance->second.zeros, work, i, who);
    }
    CheckZeros(&g, instance->second, who);
  }
  if (instance->second.completed < static_cast<int>(set->ranks.size())) return;
  g.instances.erase(instance);
  g.completed_somewhere.erase(key);
}

void ExecutionChecker::CheckSequence(const worker::session::Work& work, Rank rank, SetRecord* set, const Namer& who) {
  const uint64_t position = set->position[rank.value()]++;
  if (position == set->first + set->sequence.size()) {
    set->sequence.push_back({work.instance.anchor, work.instance.seq, 0});
  }
  SetRecord::Place& place = set->sequence[position - set->first];
  if (place.anchor != work.instance.anchor || place.seq != work.instance.seq) {
    verdict_->Fail(absl::StrCat("I1: ", who(), " is number ", position, " of its set, elsewhere (", place.anchor, ",",
                                place.seq, ") is"));
  }
  if (++place.completed < set->ranks.size() || position != set->first) return;
  set->sequence.pop_front();
  ++set->first;
}

void ExecutionChecker::Cancelled(const GenerationId& id, Rank rank, const worker::session::Work& work) {
  Generation& g = Find(id);
  const InstanceKey key(work.process_set, work.instance.anchor, work.instance.seq);
  --g.in_flight[work.final][rank.value()];
  if (g.withdrawn.count(key) == 0) verdict_->Fail(absl::StrCat(Who(id, rank, work), " is taken back on its own"));
  SetRecord& set = g.sets[work.process_set];
  if (set.anchor == work.instance.anchor) Moves(&set, rank, -1);
  const auto instance = g.instances.find(key);
  if (instance == g.instances.end() || !instance->second.started[rank.value()]) return;
  instance->second.started[rank.value()] = false;
  const std::vector<bool>& started = instance->second.started;
  if (std::find(started.begin(), started.end(), true) == started.end()) g.instances.erase(instance);
}

void ExecutionChecker::Withdrawn(const GenerationId& id, uint32_t set, uint64_t anchor, uint64_t seq) {
  Generation& g = Find(id);
  const InstanceKey key(set, anchor, seq);
  g.withdrawn.insert(key);
  if (g.completed_somewhere.count(key) == 0) return;
  verdict_->Fail(
      absl::StrCat("I6: instance (", anchor, ",", seq, ") of set ", set, " is withdrawn and has completed somewhere"));
}

void ExecutionChecker::Finished(const GenerationId& id) {
  Generation& g = Find(id);
  for (const auto& [set, record] : g.sets) {
    for (int r : record.ranks) {
      if (record.position[r] == record.first + record.sequence.size()) continue;
      verdict_->Fail(
          absl::StrCat("I1: rank ", r, " finished generation ", id.number, " without all batches of set ", set));
    }
  }
  for (const auto& [key, instance] : g.instances) {
    verdict_->Fail(absl::StrCat("I11: instance (", std::get<1>(key), ",", std::get<2>(key), ") of set ",
                                std::get<0>(key), " was neither withdrawn nor completed by all in generation ",
                                id.number));
  }
}

}  // namespace farandole::sim
