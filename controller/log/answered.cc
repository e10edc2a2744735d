#include "controller/log/answered.h"

#include <algorithm>
#include <variant>

namespace farandole::controller::log {

void Answered::Add(const ItemBody& body, uint64_t index) {
  if (const Batch* batch = std::get_if<Batch>(&body)) {
    for (const BatchEntry& entry : batch->entries) {
      // What was in the slot before this item: a later entry of it may have given the slot to another name.
      names_.emplace(batch->process_set,
                     entry.name.empty() ? name_in_(batch->process_set, entry.slot, index - 1) : entry.name);
    }
  } else if (const ErrorItem* error = std::get_if<ErrorItem>(&body)) {
    for (const std::string& name : error->names) names_.emplace(error->process_set, name);
  } else if (const BarrierDone* done = std::get_if<BarrierDone>(&body)) {
    names_.emplace(done->process_set, done->name);
  } else if (const SetChanged* changed = std::get_if<SetChanged>(&body)) {
    set_changes_.insert(changed->name);
  } else if (const Enter* enter = std::get_if<Enter>(&body)) {
    // It answers nothing of those who had begun the instance: they gave their requests to it at that time.
    const auto& begun = enter->had_begun;
    if (std::find(begun.begin(), begun.end(), rank_) != begun.end()) return;
    for (const Request& request : enter->requests) names_.emplace(enter->process_set, request.name);
  } else if (std::holds_alternative<JoinDone>(body)) {
    join_ = true;
  }
}

bool Answered::Contains(const Request& request) const {
  switch (request.signature.op) {
    case OpKind::kJoin:
      if (join_) return true;
      break;
    case OpKind::kAddProcessSet:
    case OpKind::kRemoveProcessSet:
      if (set_changes_.contains(request.name)) return true;
      break;
    default:
      break;
  }
  return names_.contains(std::make_pair(request.signature.process_set, request.name));
}

void Answered::Reduce(std::vector<Request>* requests) const {
  requests->erase(std::remove_if(requests->begin(), requests->end(), [this](const Request& r) { return Contains(r); }),
                  requests->end());
}

}  // namespace farandole::controller::log
