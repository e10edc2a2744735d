#ifndef FARANDOLE_TESTS_SIM_LIFE_H_
#define FARANDOLE_TESTS_SIM_LIFE_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/sim/executor_model.h"
#include "tests/sim/submission.h"
#include "tests/sim/world.h"
#include "worker/session/session.h"

namespace farandole::sim {

// One life of the library in a training process: worker/runtime.h, worker/control and worker/link/agent_client.h
// without threads and sockets, around the real Session.
class Life {
 public:
  // Called on the process, never inside a call of this class.
  struct Callbacks {
    std::function<void()> on_joined;
    std::function<void(const worker::session::Operation* const* submissions, size_t count)> on_answered;
    std::function<void()> on_end;      // left or removed
    std::function<void()> on_stopped;  // after Stop()
  };
  Life(World* world, Process* process, int host, worker::session::Session::Identity identity, Callbacks callbacks);

  void Start();
  // What the script has been told is let go: the next submissions are about to need its memory.
  void ForgetAnswered();
  // All or none.
  worker::completion::Result Submit(Submission::Many submissions);
  void BeginLeave();
  void Stop();

  const worker::session::Session& session() const { return session_; }
  bool joined() const { return !session_.view().members.empty(); }
  Incarnation incarnation() const { return identity_.incarnation; }
  const GenerationId& generation() const { return session_.view().generation; }
  // The last one that came; index 0 if none.
  const Item& last_item() const { return last_item_; }

  // A thread of the script waits for this one.
  void Blocked(const Submission& submission);
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
  using State = worker::session::Session::State;
  void GiveUpInit(worker::completion::Result end);
  void Connect();
  void LinkClosed();
  void OnLocal(FromAgent from);
  void OnLinkState(const LinkState& state);
  void OnReceived(WorkerDown message, const Origin& origin);
  void OnDone(worker::session::Work work);
  void OnBroken(worker::session::Work work, const absl::Status& reason, Rank suspect);
  void OnWithdrawn(worker::session::Work work);
  void ArmAckTimer();
  void AckTimeOver();
  void WatchPatience();
  void PatienceOver();
  void CheckOrigin(const Origin& origin, uint64_t session, const worker::session::Effects& effects);
  void CheckSilence(const WorkerUp& up);
  // Planted bugs.
  void ListAnswered(Hello* hello) const;
  void DecideByInFlight(WorkerDown* message) const;
  void Apply(worker::session::Effects&& effects);
  void Send(WorkerUp up);
  void EndAll(worker::session::Effects* effects);
  void Answer(const Submission::Many& submissions, const worker::completion::Result& result, uint64_t item);
  void Observe();
  void StoppedIfIdle();
  bool MayEnd(const std::string& text) const;
  void CheckLost(const worker::completion::Result& result);
  void Tell(const std::shared_ptr<worker::session::Operation>& submission);
  void TellTogether();
  bool Answered(const Submission::Many& submissions) const;

  World* const world_;
  Process* const process_;
  const int host_;
  const worker::session::Session::Identity identity_;
  const Callbacks callbacks_;
  worker::session::Session session_;
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
  WorkerState mode_ = WorkerState::kNegotiate;
  uint64_t said_session_ = 0;
  uint64_t registered_ = 0;  // incarnation of the controller that has answered Hello last
  TimePoint patience_watched_ = TimePoint::Infinite();
  uint32_t silent_phase_ = 0;  // the replay that these counts belong to
  int breaks_ = 0;
  int acks_ = 0;
  Item last_item_;
  std::shared_ptr<worker::session::Work> last_batch_;
  std::deque<Submission::Many> submitted_;  // what was submitted together, as long as one of them is not told
  size_t unanswered_ = 0;
  // See ForgetAnswered.
  std::vector<worker::session::Work> executed_;
  // Answered; the first `told_count_` of them have been told to the script, all others are about to be.
  std::vector<const worker::session::Operation*> told_;
  size_t told_count_ = 0;
  std::vector<std::shared_ptr<worker::session::Operation>> parked_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_LIFE_H_
