#ifndef FARANDOLE_TESTS_SIM_LIFE_H_
#define FARANDOLE_TESTS_SIM_LIFE_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/executor_model.h"
#include "tests/sim/submission.h"
#include "tests/sim/world.h"
#include "worker/session.h"

namespace farandole::sim {

// One life of the library in a training process: worker/runtime.h and worker/agent_client.h without threads and
// sockets, around the real Session.
class Life {
 public:
  // Called on the process, never inside a call of this class.
  struct Callbacks {
    std::function<void()> on_joined;
    std::function<void(std::shared_ptr<Submission>)> on_answered;
    std::function<void()> on_end;      // left or removed
    std::function<void()> on_stopped;  // after Stop()
  };
  Life(World* world, Process* process, int host, Session::Identity identity, Callbacks callbacks);

  void Start();
  Result Submit(std::shared_ptr<Submission> submission);
  void BeginLeave();
  void Stop();

  const Session& session() const { return session_; }
  bool joined() const { return !session_.view().members.empty(); }
  Incarnation incarnation() const { return identity_.incarnation; }
  const GenerationId& generation() const { return session_.view().generation; }
  // The last one that came; index 0 if none.
  const Item& last_item() const { return last_item_; }

  // Names of what has no answer, for people.
  std::string Unanswered() const;

  // Faults.
  void BreakLink(TimePoint late);
  void FailDataPlane() { executor_.Fail(); }
  // An item of an older generation arrives late. True if the session was in a state to be disturbed.
  bool ReceiveStale(Item item);
  // The process is dead: what others see of that.
  void Vanish();

 private:
  using State = Session::State;
  void Connect();
  void LinkClosed();
  void OnLocal(FromAgent from);
  void OnLinkState(const LinkState& state);
  void OnReceived(WorkerDown message, const Origin& origin);
  void OnDone(Work work);
  void OnBroken(Work work, const absl::Status& reason, Rank suspect);
  void OnWithdrawn(Work work);
  void ArmAckTimer();
  void AckTimeOver();
  void Apply(Session::Effects effects);
  void Send(WorkerUp up);
  void EndAll(Session::Effects effects);
  void Answer(const std::shared_ptr<Operation>& operation, const Result& result, uint64_t item);
  void Observe();
  void StoppedIfIdle();

  World* const world_;
  Process* const process_;
  const int host_;
  const Session::Identity identity_;
  const Callbacks callbacks_;
  Session session_;
  ExecutorModel executor_;
  LocalStream* stream_ = nullptr;
  bool attached_ = false;
  bool linked_ = false;
  bool flush_posted_ = false;
  bool ack_timer_armed_ = false;
  bool stopping_ = false;
  bool stopped_ = false;
  bool end_told_ = false;
  int finishing_ = 0;  // items that are executed and not yet reported as such
  int64_t retry_ms_ = 0;
  State state_ = State::kJoining;
  uint64_t said_session_ = 0;
  Item last_item_;
  std::shared_ptr<Work> last_batch_;
  std::map<const Operation*, std::shared_ptr<Operation>> unanswered_;
  std::vector<std::shared_ptr<Operation>> parked_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_LIFE_H_
