#include "tests/sim/log_checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "proto/rules/finality.h"

namespace farandole::sim {
namespace {

// Without what may differ between two tellings: slots, and what they stand for.
std::string Text(const Item& item) {
  std::string text = absl::StrCat("kind ", item.body.index(), " phase ", item.phase);
  if (const auto* batch = std::get_if<Batch>(&item.body)) {
    absl::StrAppend(&text, " batch of set ", batch->process_set, " with ", batch->entries.size());
  } else if (const auto* error = std::get_if<ErrorItem>(&item.body)) {
    absl::StrAppend(&text, " error of set ", error->process_set, " with ", error->names.size(), " ", error->text);
  } else if (const auto* barrier = std::get_if<BarrierDone>(&item.body)) {
    absl::StrAppend(&text, " barrier of set ", barrier->process_set, " ", barrier->name);
  } else if (const auto* join = std::get_if<JoinDone>(&item.body)) {
    absl::StrAppend(&text, " join ", join->last_rank.value());
  } else if (const auto* set = std::get_if<SetChanged>(&item.body)) {
    absl::StrAppend(&text, " set ", set->process_set.id, " ", set->name, " ", set->removed);
  } else if (const auto* replay = std::get_if<Replay>(&item.body)) {
    absl::StrAppend(&text, " replay of ", replay->period.batches.size());
  } else if (const auto* resume = std::get_if<Resume>(&item.body)) {
    absl::StrAppend(&text, " resume of ", resume->replay_index);
    for (const Begun& begun : resume->begun) absl::StrAppend(&text, " ", begun.seq, ":", begun.started.size());
  } else if (const auto* enter = std::get_if<Enter>(&item.body)) {
    absl::StrAppend(&text, " enter ", enter->replay_index, ",", enter->seq, " ", enter->requests.size());
  } else if (const auto* withdraw = std::get_if<Withdraw>(&item.body)) {
    absl::StrAppend(&text, " withdraw of ", withdraw->replay_index);
    for (uint64_t seq : withdraw->seqs) absl::StrAppend(&text, " ", seq);
  }
  return text;
}

bool IsJoin(const Request& request) { return request.signature.op == OpKind::kJoin; }

}  // namespace

void LogChecker::Restarted() {
  for (auto& entry : generations_) entry.second.restarted = true;
}

// Once the new incarnation sends anything all members have told it what they have received.
void LogChecker::ForgetUnreached(const GenerationId& id, Generation* g) {
  g->restarted = false;
  uint64_t reached = 0;
  for (const auto& [worker, through] : g->told) {
    if (g->left.count(worker) == 0) reached = std::max(reached, through);
  }
  g->items.erase(g->items.upper_bound(reached), g->items.end());
  const auto unreached = [reached](uint64_t item) { return item > reached; };
  g->markers.erase(std::remove_if(g->markers.begin(), g->markers.end(), unreached), g->markers.end());
  for (auto it = g->closed.begin(); it != g->closed.end();) {
    const auto current = it++;
    if (!unreached(current->second)) continue;
    // Opened before it was closed; whether that reached anybody is looked at next.
    const auto [replay, seq] = current->first;
    g->open[current->first] = g->opened[current->first];
    const std::vector<PeriodBatch>& batches = g->periods.at(replay).batches;
    execution_->NotWithdrawn(id, batches[seq % batches.size()].process_set, replay, seq);
    g->closed.erase(current);
  }
  for (auto it = g->open.begin(); it != g->open.end();) {
    const auto current = it++;
    if (unreached(current->second)) g->open.erase(current);
  }
  for (auto it = g->removed.begin(); it != g->removed.end();) {
    const auto current = it++;
    if (unreached(current->second)) g->removed.erase(current);
  }
  if (unreached(g->last_join_done)) g->last_join_done = 0;
}

void LogChecker::Sent(const Item& item) {
  Generation& g = Find(item.generation);
  if (g.restarted) ForgetUnreached(item.generation, &g);
  const std::string text = Text(item);
  const auto at = g.items.emplace(item.index, text);
  if (at.second) return First(item, &g);
  if (at.first->second == text) return;
  verdict_->Fail(absl::StrCat("I5: item ", item.index, " of generation ", item.generation.number, " is ",
                              at.first->second, ", and now ", text));
}

// An item may be told later than those behind it, to one who was away.
void LogChecker::First(const Item& item, Generation* g) {
  const bool marker = std::holds_alternative<Replay>(item.body) || std::holds_alternative<Resume>(item.body);
  if (const auto* replay = std::get_if<Replay>(&item.body)) {
    g->periods[item.index] = replay->period;
    if (!g->open.empty()) verdict_->Fail("I7: a replay begins while a begun instance is open");
    if (!g->joined.empty()) verdict_->Fail("I7: a replay begins while somebody has joined");
  } else if (const auto* resume = std::get_if<Resume>(&item.body)) {
    g->joined.clear();
    for (const Begun& begun : resume->begun) {
      const InstanceKey instance(resume->replay_index, begun.seq);
      g->open[instance] = g->opened[instance] = item.index;
      g->begun_by[instance] = {begun.started.begin(), begun.started.end()};
      if (!IsFinal(*g, instance)) continue;
      coverage_->Hit("final begun");
      if (begun.seq != resume->begun.front().seq) coverage_->Hit("final begun behind another");
    }
  } else if (const auto* enter = std::get_if<Enter>(&item.body)) {
    Close(item, g, {enter->replay_index, enter->seq});
    if (IsFinal(*g, {enter->replay_index, enter->seq})) coverage_->Hit("final entered");
  } else if (const auto* withdraw = std::get_if<Withdraw>(&item.body)) {
    Withdrawn(item, *withdraw, g);
  } else if (const auto* changed = std::get_if<SetChanged>(&item.body)) {
    Changed(item, *changed, g);
  } else if (std::holds_alternative<JoinDone>(item.body)) {
    g->joined.clear();
    g->last_join_done = item.index;
  }
  const uint32_t phase =
      static_cast<uint32_t>(std::lower_bound(g->markers.begin(), g->markers.end(), item.index) - g->markers.begin());
  // The marker itself carries the phase that it ends.
  if (item.phase != phase) {
    verdict_->Fail(absl::StrCat("item ", item.index, " carries phase ", item.phase, " in phase ", phase));
  }
  if (phase % 2 == 1 && !std::holds_alternative<Resume>(item.body)) {
    verdict_->Fail(absl::StrCat("I10: item ", item.index, " is sent during a replay"));
  }
  if (marker) g->markers.push_back(item.index);
}

bool LogChecker::IsFinal(const Generation& g, InstanceKey instance) const {
  const auto period = g.periods.find(instance.first);
  if (period == g.periods.end()) return false;
  const std::vector<PeriodBatch>& batches = period->second.batches;
  return FindFinal(batches[instance.second % batches.size()].requests) != nullptr;
}

void LogChecker::Withdrawn(const Item& item, const Withdraw& withdraw, Generation* g) {
  ++g->withdrawals;
  for (uint64_t seq : withdraw.seqs) {
    Close(item, g, {withdraw.replay_index, seq});
    execution_->Withdrawn(item.generation, withdraw.process_set, withdraw.replay_index, seq);
    CheckBehind(item, *g, {withdraw.replay_index, seq});
    if (!IsFinal(*g, {withdraw.replay_index, seq})) continue;
    verdict_->Fail(absl::StrCat("I11: item ", item.index, " withdraws (", withdraw.replay_index, ",", seq,
                                "), which has a tensor on an accelerator"));
  }
  for (const auto& [instance, opened] : g->open) {
    if (!IsFinal(*g, instance)) continue;
    if (instance.second < withdraw.seqs.back()) coverage_->Hit("withdrawn behind a final one");
    return;
  }
}

// A member that has started the later one has started the earlier one, too, if it is in that one's set.
void LogChecker::CheckBehind(const Item& item, const Generation& g, InstanceKey withdrawn) {
  const auto starters = g.begun_by.find(withdrawn);
  if (starters == g.begun_by.end()) return;
  for (const auto& [instance, opened] : g.open) {
    if (instance.second < withdrawn.second || !IsFinal(g, instance)) continue;
    for (Rank rank : g.begun_by.at(instance)) {
      if (starters->second.count(rank) == 0) continue;
      return verdict_->Fail(absl::StrCat("I11: item ", item.index, " withdraws (", withdrawn.first, ",",
                                         withdrawn.second, "), behind which rank ", rank.value(), " is inside (",
                                         instance.first, ",", instance.second, "), on an accelerator"));
    }
  }
}

void LogChecker::Opened(const View& view) {
  Generation& g = Find(view.generation);
  if (g.members_known) return;
  g.members_known = true;
  for (const Member& member : view.members) {
    g.members_known = g.members_known && member.known();
    if (member.known()) g.received.emplace(member.worker_incarnation, 0);
  }
}

// An id is taken again only when all have received the removal of its last bearer.
void LogChecker::Changed(const Item& item, const SetChanged& changed, Generation* g) {
  const uint32_t id = changed.process_set.id;
  if (changed.removed) {
    g->removed[id] = item.index;
    return;
  }
  const auto removal = g->removed.find(id);
  if (removal == g->removed.end()) return;
  for (const auto& [worker, through] : g->received) {
    if (through >= removal->second) continue;
    verdict_->Fail(absl::StrCat("item ", item.index, " gives id ", id,
                                " to a new process set, while a worker is at item ", through,
                                ", before its removal by item ", removal->second));
  }
  g->removed.erase(removal);
}

void LogChecker::Received(const GenerationId& id, Incarnation worker, uint64_t through) {
  if (id.number == 0) return;
  Generation& g = Find(id);
  g.told[worker] = std::max(g.told[worker], through);
  const auto at = g.received.find(worker);
  if (at != g.received.end()) at->second = std::max(at->second, through);
}

void LogChecker::Close(const Item& item, Generation* g, InstanceKey instance) {
  if (!g->closed.emplace(instance, item.index).second) {
    verdict_->Fail(absl::StrCat("I6: item ", item.index, " closes instance (", instance.first, ",", instance.second,
                                ") a second time"));
  }
  if (g->open.erase(instance) == 0) {
    verdict_->Fail(absl::StrCat("I6: item ", item.index, " closes instance (", instance.first, ",", instance.second,
                                "), which is not open"));
  }
}

void LogChecker::ReadProgress(const FromWorker& said) {
  const auto own = [&](const auto& message) {
    Received(message.generation, said.worker_incarnation, message.received_through);
  };
  if (const auto* hello = std::get_if<Hello>(&said.message)) {
    own(*hello);
  } else if (const auto* ack = std::get_if<Ack>(&said.message)) {
    own(*ack);
  } else if (const auto* leave = std::get_if<Leave>(&said.message)) {
    Find(leave->generation).received.erase(said.worker_incarnation);
  } else if (const auto* halted = std::get_if<Halted>(&said.message)) {
    own(*halted);
    for (const SameFrom& same : said.same) {
      Received(halted->generation, same.worker_incarnation, same.received_through);
    }
  } else if (const auto* announce = std::get_if<Announce>(&said.message)) {
    Generation& g = Find(announce->generation);
    g.join_done_before = g.last_join_done;
    own(*announce);
    for (const SameFrom& same : said.same) {
      Received(announce->generation, same.worker_incarnation, same.received_through);
    }
  }
}

void LogChecker::ReadJoins(const FromWorker& said) {
  if (const auto* announce = std::get_if<Announce>(&said.message)) {
    Generation& g = Find(announce->generation);
    const bool joins = announce->phase == g.markers.size() && g.join_done_before == g.last_join_done &&
                       std::any_of(announce->requests.begin(), announce->requests.end(), IsJoin);
    if (!joins) return;
    g.joined.insert(said.worker_incarnation);
    for (const SameFrom& same : said.same) g.joined.insert(same.worker_incarnation);
  } else if (const auto* hello = std::get_if<Hello>(&said.message)) {
    if (hello->generation.number == 0) return;
    Generation& g = Find(hello->generation);
    g.joined.erase(said.worker_incarnation);
    if (hello->phase != g.markers.size() || hello->received_through < g.last_join_done) return;
    if (std::any_of(hello->open_requests.begin(), hello->open_requests.end(), IsJoin)) {
      g.joined.insert(said.worker_incarnation);
    }
  }
}

}  // namespace farandole::sim
