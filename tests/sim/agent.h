#ifndef FARANDOLE_TESTS_SIM_AGENT_H_
#define FARANDOLE_TESTS_SIM_AGENT_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "agent/core/announcement_merger.h"
#include "agent/core/worker_table.h"
#include "tests/sim/world.h"

namespace farandole::sim {

// agent/core/agent.h and agent/link/controller_link.h without sockets and gRPC, around the real table of workers and
// the real merger. Processes are watched as by a pidfd.
class Agent {
 public:
  Agent(World* world, int host, int life);

  // With what an agent before it has left in the store of the host.
  void Start();
  // A worker's process connects.
  LocalStream* Accept(Process* worker);
  // A worker's process has died.
  void ProcessDied(const Process* worker, const std::string& cause);

  Process* process() const { return process_; }
  const std::string& id() const { return id_; }
  const std::string& host() const { return host_name_; }

  // Faults.
  void BreakStream(TimePoint late);
  void StallStream(TimePoint until);
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
  void ProcessEnded(const Process* worker, const std::string& cause);
  void ReportEnd(const agent::core::Worker& worker, const std::string& cause);
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
  agent::core::WorkerTable workers_;
  agent::core::AnnouncementMerger announcements_;
  std::deque<WorkerEnded> ends_;
  std::deque<Connection> connections_;
  std::map<Incarnation, Connection*> by_worker_;
  std::map<int64_t, const Process*> watched_;
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
