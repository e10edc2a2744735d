#include "controller/replay/begun_list.h"

#include <algorithm>

#include "controller/ready/signature_check.h"
#include "proto/rules/finality.h"
#include "proto/rules/fit.h"

namespace farandole::controller::replay {
namespace {

bool HasZeros(const Request& request) { return ready::JoinedMayTakePart(request.signature); }

std::vector<Request>::const_iterator Named(const std::vector<Request>& requests, const std::string& name) {
  return std::find_if(requests.begin(), requests.end(), [&](const Request& r) { return r.name == name; });
}

}  // namespace

void BegunList::Open(uint64_t replay_index, const Period& period, const std::vector<Begun>& begun,
                     const MembersOf& members_of) {
  replay_index_ = replay_index;
  instances_.clear();
  for (const Begun& b : begun) {
    const PeriodBatch& batch = period.batches[b.seq % period.batches.size()];
    Instance instance;
    instance.seq = b.seq;
    instance.process_set = batch.process_set;
    instance.requests = batch.requests;
    instance.members = *members_of(batch.process_set);
    for (Rank rank : b.started) instance.started.Add(rank);
    instance.covered = instance.started;
    instance.final = FindFinal(instance.requests) != nullptr;
    instance.heard.resize(instance.requests.size());
    instances_.push_back(std::move(instance));
  }
}

bool BegunList::Busy(const RankSet* members) const {
  return std::any_of(instances_.begin(), instances_.end(),
                     [&](const Instance& i) { return members == nullptr || i.started.Intersects(*members); });
}

// No name is in two open instances of a set that the same member lacks: one request of a name is outstanding at a time,
// so nobody can have started the later one before the earlier one was complete.
const BegunList::Instance* BegunList::Find(Rank rank, const Request& request) const {
  const auto it = std::find_if(instances_.begin(), instances_.end(), [&](const Instance& i) {
    return i.process_set == request.signature.process_set && i.members.Contains(rank) && !i.started.Contains(rank) &&
           Named(i.requests, request.name) != i.requests.end();
  });
  return it == instances_.end() ? nullptr : &*it;
}

const BegunList::Instance* BegunList::Find(uint64_t seq) const {
  const auto it = std::find_if(instances_.begin(), instances_.end(), [seq](const Instance& i) { return i.seq == seq; });
  return it == instances_.end() ? nullptr : &*it;
}

BegunList::Heard BegunList::Announce(Rank rank, const Request& request) {
  const Instance* const found = Find(rank, request);
  if (found == nullptr) return Heard::kOther;
  Instance& instance = instances_[found - instances_.data()];
  const auto it = Named(instance.requests, request.name);
  if (!Fits(it->signature, request.signature)) return Heard::kChanged;
  const size_t which = it - instance.requests.begin();
  if (!instance.heard[which].Add(rank)) return Heard::kTaken;
  instance.announced.emplace_back(rank, which);
  if (++instance.count[rank] == instance.requests.size()) instance.covered.Add(rank);
  return Heard::kTaken;
}

void BegunList::Forget(Rank rank) {
  for (Instance& instance : instances_) {
    if (instance.started.Contains(rank)) continue;
    instance.covered.Remove(rank);
    if (instance.count.erase(rank) == 0) continue;
    for (RankSet& heard : instance.heard) heard.Remove(rank);
    auto& announced = instance.announced;
    announced.erase(
        std::remove_if(announced.begin(), announced.end(), [rank](const auto& said) { return said.first == rank; }),
        announced.end());
  }
}

std::vector<uint64_t> BegunList::Joined(Rank rank) {
  std::vector<uint64_t> seqs;
  for (Instance& instance : instances_) {
    if (!instance.members.Contains(rank) || instance.started.Contains(rank)) continue;
    if (std::all_of(instance.requests.begin(), instance.requests.end(), HasZeros)) {
      instance.covered.Add(rank);
    } else if (!instance.covered.Contains(rank)) {
      seqs.push_back(instance.seq);
    }
  }
  return seqs;
}

void BegunList::NotJoined(Rank rank) {
  for (Instance& instance : instances_) {
    if (instance.started.Contains(rank)) continue;
    const auto announced = instance.count.find(rank);
    if (announced != instance.count.end() && announced->second == instance.requests.size()) continue;
    instance.covered.Remove(rank);
  }
}

std::vector<uint64_t> BegunList::LackedBy(Rank rank) const {
  std::vector<uint64_t> seqs;
  for (const Instance& instance : instances_) {
    if (instance.members.Contains(rank) && !instance.started.Contains(rank)) seqs.push_back(instance.seq);
  }
  return seqs;
}

// From the last one back, as what keeps an instance is later.
std::vector<const BegunList::Instance*> BegunList::KeptFor() const {
  std::vector<const Instance*> kept(instances_.size(), nullptr);
  if (std::none_of(instances_.begin(), instances_.end(), [](const Instance& i) { return i.final; })) return kept;
  for (size_t i = instances_.size(); i-- > 0;) {
    if (instances_[i].final) kept[i] = &instances_[i];
    for (size_t later = i + 1; kept[i] == nullptr && later < instances_.size(); ++later) {
      if (instances_[later].started.Intersects(instances_[i].members)) kept[i] = kept[later];
    }
  }
  return kept;
}

// Some member has to run another open instance first: entered now, its sequence would differ from that of others (rule
// C2).
bool BegunList::HeldBack(const Instance& instance) const {
  for (const Instance& other : instances_) {
    if (other.seq == instance.seq || !other.started.Intersects(instance.members)) continue;
    if (other.seq < instance.seq) return true;
    if (other.started.CountIn(instance.members, instance.started) > 0) return true;
  }
  return false;
}

absl::optional<BegunList::Entering> BegunList::TakeEnter() {
  for (auto it = instances_.begin(); it != instances_.end(); ++it) {
    if (it->covered.count() < it->members.count() || HeldBack(*it)) continue;
    Entering entering;
    entering.item.replay_index = replay_index_;
    entering.item.seq = it->seq;
    entering.item.process_set = it->process_set;
    entering.item.requests = std::move(it->requests);
    entering.item.had_begun = it->started.ToVector();
    entering.members = std::move(it->members);
    instances_.erase(it);
    return entering;
  }
  return absl::nullopt;
}

BegunList::Withdrawing BegunList::TakeWithdraw(uint32_t process_set, std::string reason) {
  Withdrawing withdrawing;
  withdrawing.item.replay_index = replay_index_;
  withdrawing.item.process_set = process_set;
  withdrawing.item.reason = std::move(reason);
  const std::vector<const Instance*> kept = KeptFor();
  std::vector<Instance> rest;
  for (size_t i = 0; i < instances_.size(); ++i) {
    Instance& instance = instances_[i];
    if (instance.process_set != process_set || kept[i] != nullptr) {
      rest.push_back(std::move(instance));
      continue;
    }
    withdrawing.item.seqs.push_back(instance.seq);
    for (const auto& said : instance.announced) {
      withdrawing.announced.emplace_back(said.first, instance.requests[said.second]);
    }
    for (Request& request : instance.requests) {
      withdrawing.started.emplace_back(std::move(request.name), instance.started);
    }
    withdrawing.members = std::move(instance.members);
  }
  instances_ = std::move(rest);
  return withdrawing;
}

bool BegunList::HasAnnounced(Rank rank) const {
  return std::any_of(instances_.begin(), instances_.end(),
                     [rank](const Instance& i) { return i.count.find(rank) != i.count.end(); });
}

}  // namespace farandole::controller::replay
