#include "tests/sim/set_alias.h"

namespace farandole::sim {

void SetAlias::Changed(SetChanged* changed) {
  uint32_t& id = changed->process_set.id;
  if (changed->removed) {
    if (inside_ == 0) removed_ = id;
  } else if (inside_ == 0 && removed_ != 0 && id != removed_ && !changed->existed) {
    inside_ = id;
    outside_ = removed_;
  }
  id = Outside(id);
}

void SetAlias::Says(WorkerDown* down) {
  auto* item = std::get_if<Item>(down);
  if (item == nullptr) return;
  if (item->generation != generation_) {
    *this = SetAlias();
    generation_ = item->generation;
  }
  const auto map = [this](uint32_t* id) { *id = Outside(*id); };
  const auto map_requests = [&](std::vector<Request>* requests) {
    for (Request& request : *requests) map(&request.signature.process_set);
  };
  if (auto* changed = std::get_if<SetChanged>(&item->body)) {
    Changed(changed);
  } else if (auto* batch = std::get_if<Batch>(&item->body)) {
    map(&batch->process_set);
    for (BatchEntry& entry : batch->entries) map(&entry.signature.process_set);
  } else if (auto* error = std::get_if<ErrorItem>(&item->body)) {
    map(&error->process_set);
  } else if (auto* barrier = std::get_if<BarrierDone>(&item->body)) {
    map(&barrier->process_set);
  } else if (auto* enter = std::get_if<Enter>(&item->body)) {
    map(&enter->process_set);
    map_requests(&enter->requests);
  } else if (auto* withdraw = std::get_if<Withdraw>(&item->body)) {
    map(&withdraw->process_set);
  } else if (auto* replay = std::get_if<Replay>(&item->body)) {
    for (PeriodBatch& each : replay->period.batches) {
      map(&each.process_set);
      map_requests(&each.requests);
    }
  }
}

void SetAlias::Hears(std::vector<Request>* requests) const {
  for (Request& request : *requests) {
    Signature& s = request.signature;
    s.process_set = Inside(s.process_set);
    if (s.op == OpKind::kRemoveProcessSet && s.shape.size() == 1)
      s.shape[0] = Inside(static_cast<uint32_t>(s.shape[0]));
  }
}

void SetAlias::Hears(WorkerUp* up) const {
  if (auto* announce = std::get_if<Announce>(up)) {
    Hears(&announce->requests);
    for (CachedRequests& cached : announce->cached) cached.process_set = Inside(cached.process_set);
  } else if (auto* hello = std::get_if<Hello>(up)) {
    Hears(&hello->open_requests);
    for (RequestName& each : hello->taking_back) each.process_set = Inside(each.process_set);
  }
}

}  // namespace farandole::sim
