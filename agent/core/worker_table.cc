#include "agent/core/worker_table.h"

#include <utility>

#include "proto/codec/codec.h"

namespace farandole::agent::core {
namespace {

// Ranks of one host; a worker that asks for more of them is not believed.
constexpr size_t kRecordsMax = 4096;

}  // namespace

Worker* WorkerTable::Find(Incarnation incarnation) {
  auto it = workers_.find(incarnation);
  return it == workers_.end() ? nullptr : &it->second;
}

Worker& WorkerTable::Add(Incarnation incarnation, pid_t pid) {
  Worker& worker = workers_[incarnation];
  worker.incarnation = incarnation;
  worker.pid = pid;
  return worker;
}

std::vector<Worker*> WorkerTable::All() {
  std::vector<Worker*> all;
  for (auto& [incarnation, worker] : workers_) all.push_back(&worker);
  return all;
}

std::vector<Worker*> WorkerTable::OfProcess(pid_t pid) {
  std::vector<Worker*> found;
  for (auto& [incarnation, worker] : workers_) {
    if (worker.pid == pid) found.push_back(&worker);
  }
  return found;
}

size_t WorkerTable::CountActive() const {
  size_t count = 0;
  for (const auto& [incarnation, worker] : workers_) {
    if (worker.said_hello && !worker.leaving && !worker.removed) ++count;
  }
  return count;
}

std::vector<WorkerReport> WorkerTable::TakeReports() {
  std::vector<WorkerReport> reports;
  for (auto& [incarnation, worker] : workers_) {
    if (worker.report.generation.number == 0 || !worker.said_hello) continue;
    std::string bytes = Encode(LocalUp(Heartbeat{worker.report}));
    if (bytes == worker.reported) continue;
    worker.reported = std::move(bytes);
    reports.push_back(worker.report);
  }
  return reports;
}

void WorkerTable::ForgetReported() {
  for (auto& [incarnation, worker] : workers_) worker.reported.clear();
}

bool WorkerTable::NoteUp(Worker* worker, const WorkerUp& message, TimePoint now) {
  const auto* hello = std::get_if<Hello>(&message);
  if (hello != nullptr) {
    worker->said_hello = true;
    worker->elastic = hello->elastic.min_size > 0;
    if (hello->rank.known()) worker->rank = hello->rank;
    // A new life of this rank: what became of the last one says nothing about it.
    if (hello->generation.number == 0 && worker->rank.known() && records_.size() < kRecordsMax) {
      records_[worker->rank.value()] = RankRecord();
    }
  }
  if (std::get_if<Leave>(&message) == nullptr && (hello == nullptr || !hello->leaving)) return hello != nullptr;
  worker->leaving = true;
  auto record = records_.find(worker->rank.value());
  if (record != records_.end() && now < record->second.stopped_taking_part) record->second.stopped_taking_part = now;
  return true;
}

bool WorkerTable::NoteDown(Worker* worker, const WorkerDown& message) {
  if (const auto* item = std::get_if<Item>(&message)) {
    if (!std::holds_alternative<LeaveDone>(item->body)) return false;
    worker->left = true;
  } else if (const auto* view = std::get_if<View>(&message)) {
    for (const Member& member : view->members) {
      if (member.worker_incarnation == worker->incarnation) worker->rank = member.rank;
    }
  } else if (const auto* removed = std::get_if<Removed>(&message)) {
    worker->removed = true;
    auto record = records_.find(worker->rank.value());
    const bool others_fault = removed->kind == RemovedKind::kPeerLost;
    if (record != records_.end() && others_fault) record->second.removed_because = removed->reason;
  } else {
    return false;
  }
  return true;
}

processes::WorkerMemory WorkerTable::MemoryOf(const Worker& worker) const {
  processes::WorkerMemory memory;
  memory.incarnation = worker.incarnation;
  memory.pid = worker.pid;
  memory.rank = worker.rank;
  memory.leaving = worker.leaving;
  memory.left = worker.left;
  memory.removed = worker.removed;
  memory.elastic = worker.elastic;
  memory.removed_because = Record(worker.rank).removed_because;
  return memory;
}

Worker& WorkerTable::Restore(const processes::WorkerMemory& memory, TimePoint now) {
  Worker& worker = Add(memory.incarnation, memory.pid);
  worker.rank = memory.rank;
  worker.leaving = memory.leaving;
  worker.left = memory.left;
  worker.removed = memory.removed;
  worker.elastic = memory.elastic;
  worker.heard = now;
  if (!memory.rank.known() || records_.size() >= kRecordsMax) return worker;
  RankRecord& record = records_[memory.rank.value()];
  record = RankRecord();
  if (memory.leaving || memory.left) record.stopped_taking_part = now;
  record.removed_because = memory.removed_because;
  return worker;
}

RankRecord WorkerTable::Record(Rank rank) const {
  auto it = records_.find(rank.value());
  RankRecord record = it == records_.end() ? RankRecord() : it->second;
  for (const auto& [incarnation, worker] : workers_) {
    if (worker.rank == rank && worker.removed) record.removed_pid = worker.pid;
  }
  return record;
}

}  // namespace farandole::agent::core
