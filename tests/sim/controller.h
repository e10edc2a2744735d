#ifndef FARANDOLE_TESTS_SIM_CONTROLLER_H_
#define FARANDOLE_TESTS_SIM_CONTROLLER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>

#include "controller/job.h"
#include "tests/sim/controller_bugs.h"
#include "tests/sim/world.h"

namespace farandole::sim {

// controller/hub.h without threads and gRPC, for one job: the real Job, and the streams of its agents.
class Controller {
 public:
  explicit Controller(World* world) : world_(world) {}

  // A new life, with a greater incarnation.
  void Start();
  void Crash();
  bool running() const { return process_ != nullptr && process_->alive(); }
  Process* process() const { return process_; }

  // An agent connects; if nobody listens the stream closes at once.
  ControllerStream* Accept(Process* agent);
  // What a member of an older generation said arrives late, as if from `worker`.
  void HearStale(const std::string& agent_id, Incarnation worker, const GenerationId& old);
  // For people.
  std::string Describe() const;
  // Its network was disturbed up to here: silence of an agent proves nothing.
  void Disturbed(const std::string& host, TimePoint until);

 private:
  void Received(ControllerStream* stream, const AgentUp& message);
  void Read(const FromWorker& said);
  void Closed(ControllerStream* stream);
  void Apply(Actions actions);
  void SendTo(AgentSend send);
  void Observe(const std::string& reason);
  void CheckGivenUp(const std::string& reason);
  void ArmTimer();
  void ForgetIfIdle();
  void MakeJob();

  World* const world_;
  Process* process_ = nullptr;
  std::unique_ptr<Job> job_;
  std::unique_ptr<ControllerBugs> bugs_;
  uint64_t incarnation_ = 0;
  std::map<std::string, ControllerStream*> streams_;       // by agent
  std::map<const ControllerStream*, std::string> agents_;  // those that said AgentHello
  std::deque<ControllerStream*> open_;                     // the same, in order
  std::map<Incarnation, uint64_t> sessions_;               // the last that each worker's Hello named
  std::map<Incarnation, uint64_t> received_through_;       // highest item sent to it
  std::map<std::string, TimePoint> disturbed_;             // by host
  TimePoint armed_ = TimePoint::Infinite();
  uint64_t forgotten_generation_ = 0;
  JobState state_ = JobState::kGathering;
  Activity activity_ = Activity::kNone;
  uint64_t next_key_ = 1;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_CONTROLLER_H_
