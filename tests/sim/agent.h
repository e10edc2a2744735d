#ifndef FARANDOLE_TESTS_SIM_AGENT_H_
#define FARANDOLE_TESTS_SIM_AGENT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "agent/core/announcement_merger.h"
#include "agent/core/worker_table.h"
#include "agent/processes/process_end.h"
#include "tests/sim/world.h"

namespace farandole::sim {

// agent/core/agent.h and agent/link/controller_link.h without sockets and gRPC, around the real table of workers and
// the real merger. Processes are watched as by a pidfd.
class Agent {
 public:
  // How a process has ended, as Ending of the product's agent.
  struct Ending {
    bool without_leaving = false;
    bool finished = false;
  };

  // `run`: of a pod, whose agent has started the processes of its host itself, and they end with it; "": no pod.
  Agent(World* world, int host, int life, std::string run = "");

  // With what an agent before it has left in the store of the host.
  void Start();
  // A worker's process connects.
  LocalStream* Accept(Process* worker);
  // A worker's process has died.
  void ProcessDied(const Process* worker, const agent::processes::ProcessEnd& end);
  // Called after the agent has dealt with that.
  void OnProcessEnd(std::function<void(const agent::processes::ProcessEnd&, const Ending&)> fn) {
    on_process_end_ = std::move(fn);
  }
  // The place of this process in an elastic job is wanted back.
  void Retire(int64_t pid);
  // Its processes are told to end: what leaves from now on has not finished.
  void ToldToEnd() { told_to_end_ = true; }
  // Says what it has to say, and ends.
  void Finish();

  Process* process() const { return process_; }
  const std::string& id() const { return id_; }
  const std::string& host() const { return host_name_; }

  // Faults.
  void BreakStream(TimePoint late);
  void StallStream(TimePoint until);
  // What it has said may arrive until then.
  TimePoint HeardUntil() const;
  // Power is gone: nothing is closed, nothing said.
  void Vanish();
  // Is killed: its sockets close.
  void Crash();

 private:
  struct Connection {
    LocalStream* stream = nullptr;
    const Process* worker = nullptr;
    Incarnation incarnation;
  };
  void Connect();
  void Received(FromController from);
  void Lost();
  void LinkChanged();
  void SayLease();
  void Say(AgentUp message);
  void ToLocal(Connection* connection, LocalDown message, Origin origin);
  void FromLocal(Connection* connection, LocalUp message);
  void Attaches(Connection* connection, const Attach& attach);
  void FromWorkerUp(agent::core::Worker* worker, const WorkerUp& message);
  void Keeps(bool complete);
  void FlushAnnouncements();
  void ConnectionClosed(Connection* connection);
  void ProcessEnded(const agent::processes::ProcessEnd& end);
  void ReportEnd(const agent::core::Worker& worker, const std::string& cause, bool lives = false);
  // Of one of an elastic job that had left, or was about to. Whether it has finished.
  bool ReportEndOfElastic(Incarnation incarnation, const agent::processes::ProcessEnd& end, bool left);
  void SayRetire(const agent::core::Worker& worker);
  bool IsPod() const { return !run_.empty(); }
  void KeepEnd(WorkerEnded end);
  void Put(const agent::processes::WorkerMemory& memory);
  void Restore();
  void Forget(Incarnation incarnation);
  void CheckHealth();
  Connection* ConnectionOf(Incarnation incarnation);

  World* const world_;
  Process* const process_;
  const int host_;
  const std::string host_name_;
  const std::string id_;
  const std::string run_;
  agent::core::WorkerTable workers_;
  agent::core::AnnouncementMerger announcements_;
  std::deque<WorkerEnded> ends_;
  std::deque<Connection> connections_;
  std::map<Incarnation, Connection*> by_worker_;
  std::map<int64_t, const Process*> watched_;
  std::map<int64_t, Incarnation> departed_;  // by process: has left an elastic job and is not here any more
  std::set<int64_t> left_when_told_;
  std::set<int64_t> retired_;
  bool told_to_end_ = false;
  std::function<void(const agent::processes::ProcessEnd&, const Ending&)> on_process_end_;
  ControllerStream* stream_ = nullptr;
  bool connected_ = false;
  bool lease_running_ = false;
  bool flush_posted_ = false;
  bool said_something_ = false;  // besides leases, since the last one
  uint64_t controller_incarnation_ = 0;
  int64_t retry_ms_ = 0;
  // Bug agent_reorders: what is held back for the next message to overtake.
  std::map<Incarnation, FromAgent> held_back_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_AGENT_H_
