#ifndef FARANDOLE_PERF_CONTROL_LOAD_AGENT_H_
#define FARANDOLE_PERF_CONTROL_LOAD_AGENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "agent/core/announcement_merger.h"
#include "agent/link/controller_stream.h"
#include "proto/messages.h"
#include "worker/session/session.h"

namespace farandole::perf::control {

// What the agents of one run share.
struct LoadContext {
  EventLoop* loop = nullptr;
  CompletionThread* thread = nullptr;
  agent::link::Outstanding* outstanding = nullptr;
  std::string address;
  std::string tls_ca_pem;
  std::string job;
  std::string token;
  int32_t ranks = 0;
  int steps = 0;
  // Of one step, in the order of submission.
  std::vector<Request> requests;

  // Counted by the agents.
  struct Counts {
    int64_t up_messages = 0, up_bytes = 0, announcements = 0;
    int64_t down_messages = 0, down_bytes = 0;
  };
  Counts counts;
  int welcomed = 0;  // agents
  int lost = 0;      // streams that ended and were opened again
  int joined = 0;    // ranks
  int done = 0;      // ranks that have got all answers of all steps
  int left = 0;      // ranks
  // The first view, which all others have to equal: ten thousand copies would fill this machine. Of each its part that
  // is common to all, and its hosts as the first that was told of all heard of them.
  View view;
  std::string view_rest, view_hosts;
  size_t view_bytes = 0;  // of the shortest, which is nearly every one
  absl::Status failure;
  // A rank may be able to go on.
  bool moved = false;
};

// A host in one object: the agent's stream to the controller, its merger, and the real session of each of its ranks.
// Only what is local is left out: sockets, processes, memory and the collectives, which take no time here. On the loop.
class LoadAgent {
 public:
  LoadAgent(LoadContext* context, int number, int32_t first_rank, int32_t ranks);

  // Opens the stream, again whenever it ends; its ranks say Hello when the controller has welcomed it.
  void Open();
  void SayLease();
  // Each rank whose turn it is submits its next tensor. `round` counts the calls; a rank begins each of its steps
  // `delays`[its number] rounds late.
  void Round(int64_t round, const std::vector<int>& delays);
  // What waits for the other ranks of the host goes out.
  void Flush();
  void Leave();
  void Close();

 private:
  struct Worker {
    Worker(worker::session::Session::Identity identity)
        : rank(identity.rank), session(std::make_unique<worker::session::Session>(identity)) {}
    Rank rank;
    std::unique_ptr<worker::session::Session> session;
    int step = 0;
    size_t submitted = 0;  // of this step
    size_t unanswered = 0;
    int64_t begin_round = -1;  // of this step; -1: not begun
  };
  void Received(const std::string& bytes);
  void Ended(const grpc::Status& status);
  // False: it is not the view that is known.
  bool TakeView(const std::string& bytes);
  bool IsKnownView(const std::string& bytes) const;
  // What a view says that no other has said before.
  void LearnView(const View& view);
  void Told(Worker* who, WorkerDown message);
  void Apply(Worker* who, worker::session::Effects effects);
  void Say(const Worker& who, WorkerUp message);
  void Completed(Worker* who, const worker::session::Work& work);
  // Submits the next tensor if it is time for it.
  void Step(Worker* who, int delay);
  void Write(const AgentUp& message);
  void Fail(const std::string& what);
  static int64_t PidOf(int32_t local) { return 1000 + local; }
  Incarnation IncarnationOf(int32_t local) const { return Incarnation(first_incarnation_ + local); }

  LoadContext* const context_;
  const std::string host_;
  const std::string agent_id_;
  const uint64_t first_incarnation_;
  std::vector<Worker> workers_;
  std::vector<Incarnation> incarnations_;
  std::shared_ptr<grpc::Channel> channel_;
  std::shared_ptr<agent::link::ControllerStream> stream_;
  agent::core::AnnouncementMerger merger_;
  bool welcomed_ = false;
  bool closed_ = false;
  int64_t kept_round_ = -1;  // since when the merger keeps something
  int64_t round_ = 0;
};

}  // namespace farandole::perf::control

#endif  // FARANDOLE_PERF_CONTROL_LOAD_AGENT_H_
