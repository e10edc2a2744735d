#include "controller/recovery/gather.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"

namespace farandole::controller::recovery {
namespace {

// More than a generation allows; it fails over the excess.
constexpr size_t kOpenRequestsMax = 65537;

bool Has(const std::map<uint64_t, std::vector<Incarnation>>& by_item, uint64_t item, Incarnation worker) {
  const auto it = by_item.find(item);
  return it != by_item.end() && std::count(it->second.begin(), it->second.end(), worker) > 0;
}

}  // namespace

void Gather::OnHello(const std::string& agent_id, const Hello& hello, Actions* actions) {
  if (!HasRoomFor(hello.worker_incarnation)) return;
  Registered& worker = workers_[hello.worker_incarnation];
  if (worker.present && hello.session <= worker.hello.session) return;
  Unask(hello.worker_incarnation);
  worker.present = true;
  worker.hello = hello;
  worker.agent_id = agent_id;
  worker.session_open = true;
  keys_.AllowFor(workers_.size());
  actions->ToWorker(agent_id, hello.worker_incarnation, Welcome{hello.session, incarnation_, {}});
  Settle(hello.worker_incarnation);
  Step(actions);
}

void Gather::OnSaid(const std::string& agent_id, const FromWorker& said, Actions* actions) {
  const auto listens = [&](Incarnation incarnation) -> Registered* {
    const auto it = workers_.find(incarnation);
    const bool open = it != workers_.end() && it->second.session_open && it->second.agent_id == agent_id;
    return open ? &it->second : nullptr;
  };
  Registered* worker = listens(said.worker_incarnation);
  if (worker != nullptr) {
    SameFrom own;
    if (const Announce* a = std::get_if<Announce>(&said.message)) {
      own = {said.worker_incarnation, a->received_through, a->completed_through};
    } else if (const Halted* h = std::get_if<Halted>(&said.message)) {
      own = {said.worker_incarnation, h->received_through, h->completed_through};
    }
    Fold(worker, said.message, own);
    const Recalled* recalled = std::get_if<Recalled>(&said.message);
    if (recalled != nullptr && recalled->generation == generation_) OnRecalled(said.worker_incarnation, *recalled);
  }
  absl::flat_hash_set<Incarnation> folded = {said.worker_incarnation};
  for (const SameFrom& same : said.same) {
    if (!folded.insert(same.worker_incarnation).second) continue;
    if (Registered* other = listens(same.worker_incarnation)) Fold(other, said.message, same);
  }
  Step(actions);
}

// As if its Hello had said it.
void Gather::Fold(Registered* worker, const WorkerUp& message, const SameFrom& progress) {
  Hello& hello = worker->hello;
  const auto progressed = [&](uint64_t received, uint64_t completed) {
    hello.received_through = std::max(hello.received_through, received);
    hello.completed_through = std::max(hello.completed_through, completed);
  };
  if (const Announce* announce = std::get_if<Announce>(&message)) {
    if (announce->generation != hello.generation || announce->phase != hello.phase) return;
    progressed(progress.received_through, progress.completed_through);
    for (const Request& request : announce->requests) {
      if (hello.open_requests.size() < kOpenRequestsMax) hello.open_requests.push_back(request);
    }
  } else if (const Halted* halted = std::get_if<Halted>(&message)) {
    if (halted->generation != hello.generation || halted->phase != hello.phase) return;
    progressed(progress.received_through, progress.completed_through);
    hello.state = WorkerState::kHalted;
    hello.next = halted->next;
  } else if (const Break* broke = std::get_if<Break>(&message)) {
    if (broke->generation == hello.generation && broke->phase == hello.phase) hello.wants_break = true;
  } else if (const Ack* ack = std::get_if<Ack>(&message)) {
    if (ack->generation == hello.generation) progressed(ack->received_through, ack->completed_through);
  } else if (const Leave* leave = std::get_if<Leave>(&message)) {
    if (leave->generation != hello.generation) return;
    progressed(leave->received_through, leave->completed_through);
    hello.leaving = true;
  } else if (const Failed* failed = std::get_if<Failed>(&message)) {
    if (failed->generation == hello.generation) worker->failed = *failed;
  }
}

void Gather::OnRecalled(Incarnation worker, const Recalled& recalled) {
  if (!view_ && asked_for_view_.count(worker) > 0 && recalled.view.generation == generation_) {
    asked_for_view_.erase(worker);
    const auto& members = recalled.view.members;
    absl::flat_hash_set<Incarnation> known;
    for (const Member& member : members) {
      if (member.known()) known.insert(member.worker_incarnation);
    }
    // Of another it may be had whole. It has whoever tells it, and nobody twice.
    if (known.size() != members.size() || !known.contains(worker)) {
      workers_[worker].hello.knows_all_hosts = false;
      return;
    }
    process_sets_ = recalled.process_sets;
    sets_through_ = workers_[worker].hello.received_through;
    TakeView(recalled.view);
  }
  for (const Item& item : recalled.items) {
    const auto asked = asked_for_.find(item.index);
    // From whoever was asked first, or since.
    if (asked == asked_for_.end() || item.generation != generation_) continue;
    if (asked->second != worker && !Has(slow_with_, item.index, worker)) continue;
    items_[item.index] = item;
    asked_for_.erase(asked);
  }
  if (recalled.view.generation.number != 0) return;
  for (auto it = asked_for_.begin(); it != asked_for_.end();) {
    const auto current = it++;
    if (current->second != worker && !Has(slow_with_, current->first, worker)) continue;
    lacked_by_[current->first].push_back(worker);
    if (current->second == worker) asked_for_.erase(current);
    looked_ = false;
  }
}

void Gather::TakeView(const View& view) {
  view_ = view;
  for (const Member& member : view.members) {
    ranks_[member.worker_incarnation] = member.rank;
    awaited_.Add(member.rank);
  }
  for (const auto& worker : workers_) Settle(worker.first);
}

// It need not be waited for any more.
void Gather::Settle(Incarnation incarnation) {
  looked_ = false;
  const auto rank = ranks_.find(incarnation);
  if (rank == ranks_.end()) return;
  const Registered& worker = workers_[incarnation];
  if (worker.present || worker.left || !worker.dead.empty()) awaited_.Remove(rank->second);
}

void Gather::OnEnded(Incarnation incarnation, const std::string& cause, bool left, Actions* actions) {
  if (!HasRoomFor(incarnation)) return;
  Registered& worker = workers_[incarnation];
  if (left) {
    worker.left = true;
  } else {
    worker.dead = cause.empty() ? "ended" : cause;
    worker.session_open = false;
  }
  Settle(incarnation);
  Step(actions);
}

void Gather::OnAgentLost(const std::string& agent_id, const std::string& text, Actions* actions) {
  for (auto& entry : workers_) {
    Registered& worker = entry.second;
    if (worker.agent_id != agent_id || !worker.dead.empty()) continue;
    worker.dead = absl::StrCat("is given up: ", text);
    worker.session_open = false;
    Settle(entry.first);
  }
  Step(actions);
}

// What it was asked for may not have reached it.
void Gather::Unask(Incarnation worker) {
  asked_for_view_.erase(worker);
  for (auto& slow : slow_with_) {
    slow.second.erase(std::remove(slow.second.begin(), slow.second.end(), worker), slow.second.end());
  }
  for (auto it = asked_for_.begin(); it != asked_for_.end();) {
    const auto current = it++;
    if (current->second == worker) asked_for_.erase(current);
  }
  looked_ = false;
}

void Gather::CloseSessions(const std::string& agent_id, Actions* actions) {
  for (auto& entry : workers_) {
    if (entry.second.agent_id != agent_id) continue;
    entry.second.session_open = false;
    Unask(entry.first);
  }
  Step(actions);
}

void Gather::Tick(TimePoint now, Actions* actions) {
  if (complete_) return;
  if (now < deadline_) {
    if (now < ask_again_at_) return;
    ask_again_at_ = now.PlusMs(ask_again_ms_);
    return AskOthers(actions);
  }
  deadline_ = ask_again_at_ = TimePoint::Infinite();
  if (!view_) {
    hopeless_ = true;
    return;
  }
  for (const Member& member : view_->members) {
    if (!awaited_.Contains(member.rank)) continue;
    workers_[member.worker_incarnation].dead = "has not come back since the controller was started again";
    Settle(member.worker_incarnation);
  }
  if (!AnyDead()) fault_ = "its members did not report their state to the restarted controller";
  Step(actions);
}

bool Gather::HasAgent(const std::string& agent_id) const {
  return std::any_of(workers_.begin(), workers_.end(), [&](const auto& entry) {
    return entry.second.agent_id == agent_id && entry.second.dead.empty() && !entry.second.left;
  });
}

bool Gather::AnyDead() const {
  return std::any_of(view_->members.begin(), view_->members.end(), [this](const Member& member) {
    const auto it = workers_.find(member.worker_incarnation);
    return it != workers_.end() && !it->second.dead.empty() && !it->second.left;
  });
}

void Gather::Step(Actions* actions) {
  if (complete_) return;
  if (!view_) {
    if (asked_for_view_.empty()) AskForView(1, actions);
    return;
  }
  if (!awaited_.empty()) return;
  // The generation has failed if somebody is dead, so that its log is of no use.
  const bool failed = !fault_.empty() || AnyDead();
  if (!failed) AskForItems(actions);
  complete_ = failed || asked_for_.empty() || !fault_.empty();
}

// Those that have been asked do not answer.
void Gather::AskOthers(Actions* actions) {
  // Twice as many each time, so that a whole host that is stopped does not cost the generation.
  if (!view_) return AskForView(std::max<size_t>(1, asked_for_view_.size()), actions);
  for (auto it = asked_for_.begin(); it != asked_for_.end();) {
    const auto current = it++;
    if (current->second == Incarnation()) continue;
    slow_with_[current->first].push_back(current->second);
    asked_for_.erase(current);
    looked_ = false;
  }
  Step(actions);
}

void Gather::AskForView(size_t count, Actions* actions) {
  std::vector<Incarnation> others;
  for (const auto& entry : workers_) {
    const Registered& worker = entry.second;
    if (!worker.session_open || worker.hello.generation != generation_ || !worker.hello.knows_all_hosts) continue;
    if (asked_for_view_.count(entry.first) == 0) others.push_back(entry.first);
  }
  std::sort(others.begin(), others.end());
  for (size_t i = 0; i < std::min(count, others.size()); ++i) {
    asked_for_view_.insert(others[i]);
    actions->ToWorker(workers_[others[i]].agent_id, others[i], Recall{generation_, {}, true});
  }
}

// Each item from the lowest rank that has it.
void Gather::AskForItems(Actions* actions) {
  if (looked_) return;
  Unask(Incarnation());
  looked_ = true;
  std::map<uint64_t, bool> wanted;  // by index: somebody can be asked
  for (const Member& member : view_->members) {
    const auto it = workers_.find(member.worker_incarnation);
    if (it == workers_.end() || !it->second.present) continue;
    std::vector<uint64_t> ask;
    for (uint64_t index : it->second.hello.retained) {
      if (items_.count(index) > 0 || asked_for_.count(index) > 0) continue;
      const bool lacks = Has(lacked_by_, index, member.worker_incarnation);
      bool& possible = wanted[index];
      // One whose session is closed may be back.
      possible = possible || !lacks;
      if (lacks || !it->second.session_open || Has(slow_with_, index, member.worker_incarnation)) continue;
      asked_for_[index] = member.worker_incarnation;
      ask.push_back(index);
    }
    if (ask.empty()) continue;
    actions->ToWorker(it->second.agent_id, member.worker_incarnation, Recall{generation_, std::move(ask), false});
  }
  for (const auto& index : wanted) {
    if (asked_for_.count(index.first) > 0) continue;
    if (!index.second) fault_ = absl::StrCat("nobody has item ", index.first, " any more, which some retained");
    // Waits for the session that closed, or for who is slow.
    asked_for_.emplace(index.first, Incarnation());
  }
}

Recovered Gather::Take() {
  Recovered found;
  found.view = *std::move(view_);
  found.process_sets = std::move(process_sets_);
  found.sets_through = sets_through_;
  found.items = std::move(items_);
  found.fault = std::move(fault_);
  for (const Member& member : found.view.members) {
    found.members.push_back(std::move(workers_[member.worker_incarnation]));
  }
  return found;
}

}  // namespace farandole::controller::recovery
