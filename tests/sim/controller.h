#ifndef FARANDOLE_TESTS_SIM_CONTROLLER_H_
#define FARANDOLE_TESTS_SIM_CONTROLLER_H_

#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "absl/strings/string_view.h"
#include "controller/hub/hub.h"
#include "tests/sim/controller_bugs.h"
#include "tests/sim/neighbours.h"
#include "tests/sim/world.h"

namespace farandole::sim {

// A controller's process: controller/rpc/server.h without threads and gRPC, around the real Hub. The job that is looked
// at is one of several; the others are Neighbours.
class Controller {
 public:
  explicit Controller(World* world) : world_(world), log_(this), clock_(&world->simulation) {}

  // A new life, with a greater incarnation, unless the clock was set back.
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
  // The clock of the hub, which a planted bug turns back.
  class HubClock final : public Clock {
   public:
    explicit HubClock(const Simulation* simulation) : simulation_(simulation) {}
    TimePoint Now() const override { return hears_at < simulation_->now() ? hears_at : simulation_->now(); }
    TimePoint hears_at = TimePoint::Infinite();

   private:
    const Simulation* const simulation_;
  };
  // What the hub says of its jobs.
  class HubLog final : public controller::hub::Log {
   public:
    explicit HubLog(Controller* controller)
        : controller::hub::Log(controller::hub::LogLevel::kDebug), controller_(controller) {}
    void Write(controller::hub::LogLevel, absl::string_view text) const override { controller_->Logged(text); }

   private:
    Controller* const controller_;
  };
  // The hub's way to one agent.
  class Link final : public controller::hub::AgentStream {
   public:
    Link(Controller* controller, ControllerStream* stream) : controller_(controller), stream_(stream) {}
    void Send(std::string head, controller::hub::SharedBytes body) override;
    // What the agent still has on its way comes, and must not matter.
    void Close(absl::Status) override { stream_->down.Close(false); }

   private:
    Controller* const controller_;
    ControllerStream* const stream_;
  };
  // A stream that said AgentHello.
  struct Agent {
    std::string id;
    std::string run;
    std::shared_ptr<Link> link;
  };

  void Arm(TimePoint when);
  void Received(ControllerStream* stream, const AgentUp& message);
  void Opened(ControllerStream* stream, const AgentHello& hello);
  void Read(const FromWorker& said);
  void Closed(ControllerStream* stream);
  void Sends(ControllerStream* stream, AgentDown message);
  void Welcomes(const AgentWelcome& welcome);
  FromController Addressed(ToWorkers down);
  void Logged(absl::string_view line);
  void Observe(const std::string& reason);
  void CheckGivenUp(const std::string& reason);
  void LookWhetherForgotten();
  uint64_t NextIncarnation();

  World* const world_;
  const HubLog log_;
  HubClock clock_;
  Process* process_ = nullptr;
  std::unique_ptr<controller::hub::Hub> hub_;
  std::unique_ptr<ControllerBugs> bugs_;  // of this life of the job
  std::unique_ptr<Neighbours> neighbours_;
  uint64_t incarnation_ = 0;                         // of the job's life that has welcomed agents last
  std::set<uint64_t> incarnations_;                  // all
  std::map<std::string, ControllerStream*> newest_;  // by agent
  std::map<ControllerStream*, Agent> agents_;
  std::deque<ControllerStream*> open_;                // and those that have not said it yet, in order
  bool known_ = false;                                // the hub knows the job
  std::map<Incarnation, uint64_t> sessions_;          // the last that each worker's Hello named
  std::map<Incarnation, uint64_t> received_through_;  // highest item sent to it
  std::map<std::string, TimePoint> disturbed_;        // by host
  TimePoint armed_ = TimePoint::Infinite();
  bool on_time_ = false;  // the wake-up that is handled came when it was wanted
  bool hears_stale_ = false;
  controller::JobState state_ = controller::JobState::kGathering;
  controller::Activity activity_ = controller::Activity::kNone;
  uint64_t next_key_ = 1;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_CONTROLLER_H_
