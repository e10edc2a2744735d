#include "controller/replay/begun_list.h"

#include <algorithm>

#include "controller/ready/signature_check.h"
#include "proto/rules/fit.h"

namespace farandole::controller::replay {
namespace {

bool HasZeros(const Request& request) { return ready::JoinedMayTakePart(request.signature); }

void AddOnce(uint32_t process_set, std::vector<uint32_t>* sets) {
  if (std::find(sets->begin(), sets->end(), process_set) == sets->end()) sets->push_back(process_set);
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
BegunList::Heard BegunList::Announce(Rank rank, const Request& request) {
  for (Instance& instance : instances_) {
    if (instance.process_set != request.signature.process_set) continue;
    if (!instance.members.Contains(rank) || instance.started.Contains(rank)) continue;
    const auto it = std::find_if(instance.requests.begin(), instance.requests.end(),
                                 [&](const Request& r) { return r.name == request.name; });
    if (it == instance.requests.end()) continue;
    if (!Fits(it->signature, request.signature)) return Heard::kChanged;
    const size_t which = it - instance.requests.begin();
    if (!instance.heard[which].Add(rank)) return Heard::kTaken;
    instance.announced.emplace_back(rank, which);
    if (++instance.count[rank] == instance.requests.size()) instance.covered.Add(rank);
    return Heard::kTaken;
  }
  return Heard::kOther;
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

std::vector<uint32_t> BegunList::Joined(Rank rank) {
  std::vector<uint32_t> sets;
  for (Instance& instance : instances_) {
    if (!instance.members.Contains(rank) || instance.started.Contains(rank)) continue;
    if (std::all_of(instance.requests.begin(), instance.requests.end(), HasZeros)) {
      instance.covered.Add(rank);
    } else if (!instance.covered.Contains(rank)) {
      AddOnce(instance.process_set, &sets);
    }
  }
  return sets;
}

std::vector<uint32_t> BegunList::LackedBy(Rank rank) const {
  std::vector<uint32_t> sets;
  for (const Instance& instance : instances_) {
    if (instance.members.Contains(rank) && !instance.started.Contains(rank)) AddOnce(instance.process_set, &sets);
  }
  return sets;
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
  for (auto it = instances_.begin(); it != instances_.end();) {
    if (it->process_set != process_set) {
      ++it;
      continue;
    }
    withdrawing.item.seqs.push_back(it->seq);
    for (const auto& said : it->announced) withdrawing.announced.emplace_back(said.first, it->requests[said.second]);
    withdrawing.members = std::move(it->members);
    it = instances_.erase(it);
  }
  return withdrawing;
}

std::vector<uint32_t> BegunList::OpenSets() const {
  std::vector<uint32_t> sets;
  for (const Instance& instance : instances_) AddOnce(instance.process_set, &sets);
  std::sort(sets.begin(), sets.end());
  return sets;
}

std::vector<Rank> BegunList::Lacking(uint32_t process_set) const {
  std::vector<Rank> ranks;
  for (const Instance& instance : instances_) {
    if (instance.process_set != process_set) continue;
    for (Rank rank : instance.members.ToVector()) {
      if (!instance.covered.Contains(rank)) ranks.push_back(rank);
    }
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

bool BegunList::HasAnnounced(Rank rank) const {
  return std::any_of(instances_.begin(), instances_.end(),
                     [rank](const Instance& i) { return i.count.find(rank) != i.count.end(); });
}

}  // namespace farandole::controller::replay
