#ifndef FARANDOLE_AGENT_CORE_WORKER_TABLE_H_
#define FARANDOLE_AGENT_CORE_WORKER_TABLE_H_

#include <sys/types.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/local/local_connection.h"
#include "agent/processes/worker_memory.h"
#include "base/clock.h"
#include "proto/messages.h"

namespace farandole::agent::core {

// What the agent knows of one incarnation of a worker, from Attach until it has left, its process has ended or begun a
// new one.
struct Worker {
  Incarnation incarnation;
  pid_t pid = 0;
  pid_t group = 0;                                     // its process group
  Rank rank;                                           // -1 until it has said Hello or a View has told
  std::shared_ptr<local::LocalConnection> connection;  // null while it has none
  bool said_hello = false;                             // on this life of the link to the controller
  bool leaving = false;                                // said Leave
  bool left = false;                                   // and was told LeaveDone
  bool removed = false;                                // was told that it is not a member
  bool elastic = false;                                // its job is: it may come back after it has left
  TimePoint heard;                                     // last message of any kind
  bool responsive = true;
  std::string cause;  // why it is not
  // What it says about itself, for the next lease; generation 0: nothing yet.
  WorkerReport report;
  std::string reported;  // the bytes that the controller has of it; "" = none on this life of the link
};

// Whether a worker of an elastic job, whose process has ended with this code, may have done what it was to do: it had
// left, or was a member that ended well while it left, its generation having failed meanwhile. `told_to_end`: it may
// leave for that reason alone.
inline bool MayHaveFinished(const Worker& worker, int code, bool told_to_end) {
  const bool was_leaving = worker.rank.known() && worker.leaving && code == 0;
  return worker.elastic && (worker.left || (was_leaving && !told_to_end));
}

// What stays known of a rank that this host has started, for the verdict on its end.
struct RankRecord {
  TimePoint stopped_taking_part = TimePoint::Infinite();
  std::string removed_because;
  pid_t removed_pid = 0;  // process that was told so and is still attached
};

// The workers of this host, by incarnation, and what became of their ranks. No I/O.
class WorkerTable {
 public:
  // Null if unknown. Pointers stay valid until the worker is erased.
  Worker* Find(Incarnation incarnation);
  Worker& Add(Incarnation incarnation, pid_t pid);
  void Erase(Incarnation incarnation) { workers_.erase(incarnation); }
  // By incarnation; safe to erase while walking.
  std::vector<Worker*> All();
  std::vector<Worker*> OfProcess(pid_t pid);
  // Those that take part: have said Hello, and neither left nor been removed.
  size_t CountActive() const;
  bool empty() const { return workers_.empty(); }
  size_t size() const { return workers_.size(); }

  // Reports that differ from what the controller has; counts them as told.
  std::vector<WorkerReport> TakeReports();
  // The link is another one: the controller has none of them.
  void ForgetReported();

  // Notes what a message tells about its sender. True: the worker's memory has changed.
  bool NoteUp(Worker* worker, const WorkerUp& message, TimePoint now);
  // Notes what a message tells its addressee. True as above.
  bool NoteDown(Worker* worker, const WorkerDown& message);
  processes::WorkerMemory MemoryOf(const Worker& worker) const;
  // As it was for the agent before this one.
  Worker& Restore(const processes::WorkerMemory& memory, TimePoint now);
  RankRecord Record(Rank rank) const;

 private:
  std::map<Incarnation, Worker> workers_;
  std::map<int32_t, RankRecord> records_;
};

}  // namespace farandole::agent::core

#endif  // FARANDOLE_AGENT_CORE_WORKER_TABLE_H_
