#include "worker/session/item_reader.h"

#include <algorithm>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "proto/rules/finality.h"

namespace farandole::worker::session {

std::vector<RequestName> ItemReader::taking_back() const {
  std::vector<RequestName> all;
  for (const auto& [process_set, name] : taking_back_) all.push_back({process_set, name});
  return all;
}

bool ItemReader::Read(Item item, Work* work) {
  work->item = item.index;
  work->instance = {item.generation.number, item.index, 0};
  if (auto* batch = std::get_if<Batch>(&item.body)) return ReadBatch(std::move(*batch), work);
  if (auto* enter = std::get_if<Enter>(&item.body)) return ReadEnter(std::move(*enter), work);
  if (auto* error = std::get_if<ErrorItem>(&item.body)) return ReadError(std::move(*error), work);
  if (auto* done = std::get_if<JoinDone>(&item.body)) return ReadJoin(*done, work);
  if (auto* changed = std::get_if<SetChanged>(&item.body)) return ReadSet(std::move(*changed), work);
  if (auto* barrier = std::get_if<BarrierDone>(&item.body)) {
    work->kind = Work::Kind::kBarrierDone;
    work->process_set = barrier->process_set;
    return Take(barrier->process_set, barrier->name, work);
  }
  work->kind = Work::Kind::kLeaveDone;
  return true;
}

bool ItemReader::ReadBatch(Batch batch, Work* work) {
  work->kind = Work::Kind::kBatch;
  work->process_set = batch.process_set;
  work->operations.reserve(batch.entries.size());
  work->first_dims.reserve(batch.entries.size());
  for (BatchEntry& entry : batch.entries) {
    work->final |= entry.signature.device != DeviceKind::kHost;
    if (!TakeOrZeros(batch.process_set, entry.name, std::move(entry.signature), work)) return false;
    work->first_dims.push_back(std::move(entry.first_dims));
  }
  return true;
}

bool ItemReader::ReadEnter(Enter enter, Work* work) {
  work->kind = Work::Kind::kBatch;
  work->process_set = enter.process_set;
  work->instance.anchor = enter.replay_index;
  work->instance.seq = enter.seq;
  work->final = FindFinal(enter.requests) != nullptr;
  work->operations.reserve(enter.requests.size());
  for (Request& request : enter.requests) {
    if (!TakeOrZeros(enter.process_set, request.name, std::move(request.signature), work)) return false;
  }
  return true;
}

bool ItemReader::ReadError(ErrorItem error, Work* work) {
  work->kind = Work::Kind::kError;
  work->process_set = error.process_set;
  for (const std::string& name : error.names) {
    // Who has joined has part in what fails, but no request.
    if (!Take(error.process_set, name, work) && !joined()) return false;
  }
  if (std::find(work->operations.begin(), work->operations.end(), join_) != work->operations.end()) join_ = nullptr;
  work->error = {error.kind == ErrorKind::kLeft ? completion::Code::kPeerLost : completion::Code::kMismatch,
                 std::move(error.text)};
  return true;
}

bool ItemReader::ReadJoin(const JoinDone& done, Work* work) {
  work->kind = Work::Kind::kJoinDone;
  if (!joined()) {
    work->error.text = "join";
    return false;
  }
  const std::shared_ptr<Operation> join = std::move(join_);
  join_ = nullptr;
  if (!Take(0, join->request.name, work)) return false;
  join->value = done.last_rank.value();
  return true;
}

bool ItemReader::ReadSet(SetChanged changed, Work* work) {
  work->kind = Work::Kind::kSetChanged;
  work->removed = changed.removed;
  if (!Take(0, changed.name, work)) return false;
  work->operations[0]->value = static_cast<int32_t>(changed.process_set.id);
  if (changed.existed) {
    work->kind = Work::Kind::kError;
    work->error = {completion::Code::kInvalidArgument,
                   absl::StrCat("process set ", changed.process_set.id, " has exactly these ranks already")};
  }
  work->changed_set = std::move(changed.process_set);
  return true;
}

bool ItemReader::Take(uint32_t process_set, absl::string_view name, Work* work) {
  std::shared_ptr<Operation> operation = table_->Assign(process_set, name);
  if (operation == nullptr) {
    work->error.text = std::string(name);
    return false;
  }
  work->operations.push_back(std::move(operation));
  return true;
}

bool ItemReader::TakeOrZeros(uint32_t process_set, const std::string& name, Signature signature, Work* work) {
  if (Take(process_set, name, work)) {
    if (joined()) work->signatures.push_back(work->operations.back()->request.signature);
    return true;
  }
  if (!joined() || signature.op == OpKind::kUnspecified || taking_back_.count({process_set, name}) > 0) return false;
  work->error.text.clear();
  work->operations.push_back(nullptr);
  work->signatures.push_back(std::move(signature));
  return true;
}

}  // namespace farandole::worker::session
