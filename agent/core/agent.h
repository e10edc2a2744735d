#ifndef FARANDOLE_AGENT_CORE_AGENT_H_
#define FARANDOLE_AGENT_CORE_AGENT_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "agent/core/announcement_merger.h"
#include "agent/core/worker_table.h"
#include "agent/launcher/launcher_store.h"
#include "agent/link/controller_link.h"
#include "agent/link/key_relay.h"
#include "agent/link/outstanding.h"
#include "agent/local/local_server.h"
#include "agent/processes/process_watch.h"
#include "agent/segments/segment_broker.h"
#include "base/event_loop.h"

namespace farandole::agent::core {

struct AgentConfig {
  link::ControllerLinkConfig link;
  std::string socket_name;
  uint64_t segment_bytes_max = 0;
  uint32_t heartbeat_interval_ms = 1000;
  int64_t silence_ms = 5000;  // of a worker, until it counts as unresponsive
  int64_t health_interval_ms = 1000;
};

// Speaks for the workers of one host: a wire between each of them and the controller that keeps the order in both
// directions and answers nothing from memory, plus what only somebody on their host can do: evidence of their end and
// health, and shared memory. One loop owns all of it.
class Agent {
 public:
  // `log` prints one line for people. `loop` and `store` outlive this.
  Agent(EventLoop* loop, AgentConfig config, launcher::LauncherStore* store,
        std::function<void(const std::string&)> log);

  // ALREADY_EXISTS: the socket's name is taken.
  absl::Status ListenFromLoop();
  // Takes over from an agent that was killed: the workers that had attached to it, its reports, its segments. Before
  // anything else happens; those of its workers that this agent started itself are watched already.
  void RestoreFromLoop(std::vector<launcher::KeptEntry>* kept);
  // gRPC's threads begin here: start processes before.
  void ConnectFromLoop();
  // Closes the link after what has been said; nothing is reported any more. `Idle` then says when the loop may end.
  void StopFromLoop();
  bool Idle() const { return outstanding_.none(); }

  // Why no controller has let this agent in for want of room; "": one has, or something else is the matter.
  const std::string& NoRoomFromLoop() const { return link_.no_room(); }

  // How long this process did not run, until now or some seconds ago; 0: not worth a word.
  int64_t StoodStillMs() const;

  // Watches the processes of the workers; whoever starts some adds them.
  processes::ProcessWatch* watch() { return &watch_; }
  struct Ending {
    bool without_leaving = false;  // it was a member until then
    bool finished = false;         // of an elastic job: it has done what it was to do
  };
  // Called after the agent has dealt with a process's end.
  void OnProcessEnd(std::function<void(const processes::ProcessEnd&, const Ending&)> fn) {
    on_process_end_ = std::move(fn);
  }
  // This host's own process of an elastic job: the script, or what has started it. The controller learns that the
  // script has finished when this process ends well after a process of its group has left the job.
  void StartedFromLoop(pid_t pid) { started_.insert(pid); }
  // These processes are told to end: what leaves the job from now on may do so because of that, and has not finished.
  void ToldToEndFromLoop() { told_to_end_ = true; }
  // The place of this process in an elastic job is wanted back, or of what it has started in its process group: the
  // controller is told, as often as it has to be.
  void RetireFromLoop(pid_t pid);
  // The process that was started for this rank has ended: those that wait for it to call init() do so in vain.
  void RankEndedFromLoop(Rank rank, const processes::ProcessEnd& end);
  RankRecord Record(Rank rank) const { return workers_.Record(rank); }

 private:
  using Connection = std::shared_ptr<local::LocalConnection>;

  void LinkChanged(const LinkState& state);
  // Tells people of an outage that lasts, and of its end. That the controller is late is news later than that it has
  // gone; one more attempt that fails is none.
  void LogLink(const LinkState& state);
  void LogOutage();
  void FromController(const ToWorkers& message);
  void FromLocal(const Connection& connection, const LocalUp& message);
  void Attaches(const Connection& connection, const Attach& attach);
  void FromWorkerUp(const Connection& connection, Worker* worker, const WorkerUp& message);
  // Something is kept in `announcements_`; `complete`: it should go out now.
  void Keeps(bool complete);
  // Sends the announcements that are kept.
  void FlushAnnouncements();
  void AsksForSegment(const Connection& connection, const SegmentRequest& request);
  void ConnectionClosed(const Connection& connection, const absl::Status& status);
  void ProcessEnded(const processes::ProcessEnd& end);
  // Deals with the ends of what a process of StartedFromLoop had started, of which nobody has told yet.
  void EndedInGroup(pid_t group);
  // Its end is reported to the controller, now and after every reconnection.
  void ReportEnd(const Worker& worker, const std::string& cause, bool lives = false);
  // The same of one of an elastic job that had left, which was said before, or was about to. Whether it has finished.
  bool ReportEndOfElastic(Incarnation incarnation, pid_t group, const processes::ProcessEnd& end, bool left);
  // What is kept of this group, if anything is. `finished` if so.
  bool ReportEndInGroup(pid_t group, bool finished);
  bool IsRetired(const Worker& worker) const { return retired_.count(worker.pid) + retired_.count(worker.group) > 0; }
  // Says so, and again after every reconnection.
  void Report(WorkerEnded end);
  // To be said after every reconnection.
  void KeepEnd(WorkerEnded end);
  void Remember(const Worker& worker);
  void Forget(Incarnation incarnation);
  void CheckHealth();
  void Refuse(const Connection& connection, const std::string& reason);

  EventLoop* const loop_;
  const AgentConfig config_;
  launcher::LauncherStore* const store_;
  const std::function<void(const std::string&)> log_;
  link::Outstanding outstanding_;
  WorkerTable workers_;
  AnnouncementMerger announcements_;
  std::deque<WorkerEnded> ends_;
  // Workers of elastic jobs that have left and are not here any more, by process: others wait for them to come back.
  struct Departed {
    Incarnation incarnation;
    pid_t group = 0;
  };
  std::map<pid_t, Departed> departed_;
  // Those of StartedFromLoop, and of what they had started: workers that have left and ended, by group.
  std::set<pid_t> started_;
  bool told_to_end_ = false;
  std::set<pid_t> left_when_told_;
  std::map<pid_t, WorkerEnded> ended_in_group_;
  // Processes whose places are wanted back.
  std::set<pid_t> retired_;
  segments::SegmentBroker segments_;
  link::ControllerLink link_;
  link::KeyRelay keys_;
  local::LocalServer server_;
  processes::ProcessWatch watch_;
  std::function<void(const processes::ProcessEnd&, const Ending&)> on_process_end_;
  EventLoop::TimerId health_timer_ = 0;
  TimePoint health_due_;
  int64_t stood_still_ms_ = 0;  // the last time
  TimePoint stood_still_until_;
  EventLoop::TimerId outage_timer_ = 0;
  EventLoop::TimerId announcements_timer_ = 0;
  bool link_was_up_ = false;
  std::string outage_text_;  // as it was logged last; "" if it was not
};

}  // namespace farandole::agent::core

#endif  // FARANDOLE_AGENT_CORE_AGENT_H_
