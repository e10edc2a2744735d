#include "tests/sim/controller_bugs.h"

#include <algorithm>
#include <string>

namespace farandole::sim {
namespace {

void Ungroup(std::vector<Request>* requests) {
  for (Request& request : *requests) {
    request.signature.group.clear();
    request.signature.group_size = 0;
  }
}

// A controller that does not know accelerators. It keeps apart what lies there by the sign of a factor, so that all
// else is as if it did; of others than allreduces, which no replay has here, it compares no factors.
void Forget(Signature* signature) {
  if (signature->device == DeviceKind::kHost || signature->op != OpKind::kAllreduce) return;
  signature->device = DeviceKind::kHost;
  signature->prescale = -signature->prescale;
}

void Recall(Signature* signature) {
  if (signature->prescale >= 0) return;
  signature->device = DeviceKind::kAccelerator;
  signature->prescale = -signature->prescale;
}

template <typename Change>
void ForEachSignature(std::vector<Request>* requests, const Change& change) {
  for (Request& request : *requests) change(&request.signature);
}

template <typename Change>
void ForEachSignature(ItemBody* body, const Change& change) {
  if (auto* batch = std::get_if<Batch>(body)) {
    for (BatchEntry& entry : batch->entries) change(&entry.signature);
  } else if (auto* enter = std::get_if<Enter>(body)) {
    ForEachSignature(&enter->requests, change);
  } else if (auto* replay = std::get_if<Replay>(body)) {
    for (PeriodBatch& batch : replay->period.batches) ForEachSignature(&batch.requests, change);
  }
}

void ForgetDevices(FromWorker* said) {
  if (auto* announce = std::get_if<Announce>(&said->message)) ForEachSignature(&announce->requests, Forget);
  if (auto* hello = std::get_if<Hello>(&said->message)) ForEachSignature(&hello->open_requests, Forget);
  auto* recalled = std::get_if<Recalled>(&said->message);
  if (recalled == nullptr) return;
  for (Item& item : recalled->items) ForEachSignature(&item.body, Forget);
}

void Ungroup(FromWorker* said) {
  if (auto* announce = std::get_if<Announce>(&said->message)) Ungroup(&announce->requests);
  if (auto* hello = std::get_if<Hello>(&said->message)) Ungroup(&hello->open_requests);
}

}  // namespace

void ControllerBugs::Opened(AgentHello* hello) const {
  if (bugs_->run_left_out) hello->run.clear();
  if (bugs_->runs_confused && !hello->run.empty()) hello->run = "uid-1";
}

void ControllerBugs::ChangeElastic(AgentUp* message) const {
  if (auto* ended = std::get_if<WorkerEnded>(message)) {
    if (bugs_->finished_left_out) ended->finished = false;
    if (bugs_->lives_left_out) ended->lives = false;
  }
  auto* said = std::get_if<FromWorker>(message);
  auto* hello = said == nullptr ? nullptr : std::get_if<Hello>(&said->message);
  if (hello == nullptr || hello->elastic.min_size == 0) return;
  if (bugs_->min_size_ignored) hello->elastic.min_size = 1;
  if (bugs_->max_size_ignored) hello->elastic.max_size = 0;
  if (bugs_->survivors_not_awaited) hello->elastic.settle_ms = 0;
  if (bugs_->home_left_out) hello->elastic.home = 0;
  if (bugs_->previous_left_out) hello->elastic.previous_generation = hello->elastic.state_generation = 0;
}

std::vector<AgentUp> ControllerBugs::Heard(AgentUp message) {
  ChangeElastic(&message);
  std::vector<AgentUp> all;
  std::vector<FromWorker> said;
  if (auto* one = std::get_if<FromWorker>(&message)) {
    if (bugs_->group_split) Ungroup(one);
    if (bugs_->final_withdrawn) ForgetDevices(one);
    if (bugs_->set_id_reused) sets_.Hears(&one->message);
    said.push_back(*one);
  } else if (auto* several = std::get_if<FromWorkers>(&message)) {
    for (FromWorker& each : several->messages) {
      if (bugs_->group_split) Ungroup(&each);
      if (bugs_->final_withdrawn) ForgetDevices(&each);
      if (bugs_->set_id_reused) sets_.Hears(&each.message);
      said.push_back(each);
    }
  }
  all.push_back(std::move(message));
  for (const FromWorker& each : said) Forge(each, &all);
  return all;
}

void ControllerBugs::Forge(const FromWorker& said, std::vector<AgentUp>* all) {
  const auto* announce = std::get_if<Announce>(&said.message);
  if (bugs_->joined_counted_twice && announce != nullptr) {
    const auto join = std::find_if(announce->requests.begin(), announce->requests.end(),
                                   [](const Request& r) { return r.signature.op == OpKind::kJoin; });
    const auto other = std::find_if(members_.begin(), members_.end(),
                                    [&](Incarnation member) { return member != said.worker_incarnation; });
    if (join == announce->requests.end() || other == members_.end()) return;
    Announce forged = *announce;
    forged.requests = {*join};
    forged.cached.clear();
    forged.received_through = forged.completed_through = 0;
    all->push_back(FromWorker{*other, forged, {}});
  }
  const auto* halted = std::get_if<Halted>(&said.message);
  if (bugs_->resume_before_all_halted && halted != nullptr && halts_forged_.insert(halted->phase).second) {
    for (Incarnation member : members_) {
      if (member == said.worker_incarnation) continue;
      Halted forged = *halted;
      forged.received_through = forged.completed_through = 0;
      all->push_back(FromWorker{member, forged, {}});
    }
  }
}

TimePoint ControllerBugs::When(const std::string& agent, const AgentUp& message, TimePoint now) {
  if (!bugs_->lease_not_renewed_by_traffic) return now;
  const auto at = leases_.emplace(agent, now).first;
  if (std::holds_alternative<Lease>(message) || std::holds_alternative<AgentHello>(message)) at->second = now;
  return at->second;
}

void ControllerBugs::RememberMembers(const View& view) {
  members_.clear();
  for (const Member& member : view.members) members_.push_back(member.worker_incarnation);
}

void ControllerBugs::Says(ToWorkers* down) {
  if (const auto* view = std::get_if<View>(&down->message)) RememberMembers(*view);
  if (bugs_->set_id_reused) sets_.Says(&down->message);
  if (auto* notice = std::get_if<MembershipNotice>(&down->message)) {
    if (bugs_->changes_not_told) notice->added = notice->removed = 0;
  }
  auto* item = std::get_if<Item>(&down->message);
  if (bugs_->final_withdrawn && item != nullptr) ForEachSignature(&item->body, Recall);
  auto* batch = item == nullptr ? nullptr : std::get_if<Batch>(&item->body);
  if (!bugs_->cache_slot_reused || batch == nullptr) return;
  for (size_t i = 0; i < batch->entries.size(); ++i) {
    BatchEntry& entry = batch->entries[i];
    if (entry.slot == 0 || entry.name.empty()) continue;
    const auto known = slots_.emplace(item->index * 4096 + i, entry.slot);
    if (known.second) {
      if (++definitions_ % 5 == 0 && last_slot_ != 0) known.first->second = last_slot_;
      last_slot_ = entry.slot;
    }
    entry.slot = known.first->second;
  }
}

}  // namespace farandole::sim
