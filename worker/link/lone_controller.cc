#include "worker/link/lone_controller.h"

#include <cstdint>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "base/auth.h"
#include "proto/version.h"

namespace farandole::worker::link {
namespace {

constexpr char kAgentId[] = "lone";

controller::JobConfig MakeConfig() {
  controller::JobConfig config;
  config.controller_incarnation = RandomId();
  // The agent is this process: it is never silent.
  config.suspect_after_ms = INT32_MAX;
  config.give_up_after_ms = INT32_MAX;
  config.size_max = 1;
  config.new_data_key = [] { return RandomBytes(kKeyBytes); };
  return config;
}

}  // namespace

LoneController::LoneController(EventLoop* loop, Incarnation worker)
    : loop_(loop), worker_(worker), job_("lone", MakeConfig()) {}

void LoneController::StartFromLoop(Listener* listener) {
  listener_ = listener;
  controller::Actions actions;
  {
    absl::MutexLock lock(&mutex_);
    actions = job_.AgentConnected(AgentHello{kAgentId, "localhost", kVersion, 0}, loop_->Now());
  }
  Deliver(std::move(actions));
  listener_->OnLinkState(LinkState{true, "", false});
}

void LoneController::Send(const WorkerUp& message) {
  // Posted: the caller may hold a lock of its own, and answers are not given inside calls.
  loop_->Post([this, message] { Say(FromWorker{worker_, message}); });
}

void LoneController::Say(const AgentUp& message) {
  controller::Actions actions;
  {
    absl::MutexLock lock(&mutex_);
    actions = job_.AgentSaid(kAgentId, message, loop_->Now());
  }
  Deliver(std::move(actions));
}

void LoneController::Deliver(controller::Actions actions) {
  for (farandole::controller::Send& send : actions.sends) {
    auto* message = std::get_if<WorkerDown>(&send.message);
    if (message != nullptr) listener_->OnReceived(std::move(*message));
  }
  SetTimer();
}

void LoneController::SetTimer() {
  loop_->CancelTimerFromLoop(timer_);
  TimePoint deadline;
  {
    absl::MutexLock lock(&mutex_);
    deadline = job_.NextDeadline();
  }
  if (deadline == TimePoint::Infinite()) return;
  timer_ = loop_->AddTimerFromLoop(deadline, [this] {
    controller::Actions actions;
    {
      absl::MutexLock lock(&mutex_);
      actions = job_.Tick(loop_->Now());
    }
    Deliver(std::move(actions));
  });
}

absl::Status LoneController::Put(const GenerationId& generation, const std::string& key, const std::string& value) {
  absl::MutexLock lock(&mutex_);
  return job_.Put(generation, key, value);
}

absl::StatusOr<std::string> LoneController::Get(const GenerationId& generation, const std::string& key,
                                                uint32_t timeout_ms) {
  absl::MutexLock lock(&mutex_);
  absl::StatusOr<std::string> value = job_.Find(generation, key);
  if (!absl::IsNotFound(value.status())) return value;
  return absl::DeadlineExceededError(absl::StrCat("this process is alone and has not put \"", key, "\""));
}

absl::StatusOr<UniqueFd> LoneController::Segment(const GenerationId& generation, const std::string& key,
                                                 uint64_t size_bytes) {
  return absl::UnavailableError("a process without an agent has no shared segments");
}

}  // namespace farandole::worker::link
