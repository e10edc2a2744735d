#include "agent/processes/supervisor.h"

#include <algorithm>
#include <csignal>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::agent::processes {
namespace {

constexpr int64_t kKillAfterMs = 5000;
constexpr int64_t kKillAfterLauncherMs = 2000;

}  // namespace

Supervisor::Step Supervisor::Ended(const WorkerEnd& end, TimePoint now) {
  --running_;
  finished_ = finished_ || end.finished;
  Step step;
  if ((end.process.code != 0 || end.without_leaving) && !OwnDoing(end)) {
    failures_.push_back({end, std::min(end.stopped_taking_part, now)});
    if (plan_.elastic) {
      step.retire = true;
    } else if (state_ == State::kRunning) {
      state_ = State::kGrace;
      deadline_ = now.PlusMs(plan_.grace_ms);
    }
  } else if (end.process.code == 0) {
    ended_well_.emplace_back(std::min(end.stopped_taking_part, now), end.rank);
  }
  if (running_ > 0) return step;
  deadline_ = TimePoint::Infinite();
  step.finished = true;
  step.exit_code = ExitCode();
  Say(&step);
  return step;
}

bool Supervisor::OwnDoing(const WorkerEnd& end) const {
  if (state_ == State::kRunning || state_ == State::kGrace || state_ == State::kLeaving) return false;
  // The end of a process can take longer than the grace; if it left before, only our signals are our doing.
  const int code = end.process.code;
  return !(end.stopped_taking_part < terminated_at_) || code == 128 + SIGTERM || code == 128 + SIGKILL;
}

Supervisor::Step Supervisor::AskedToLeave(TimePoint now) {
  asked_to_leave_ = true;
  Step step;
  if (running_ == 0 || state_ != State::kRunning) return step;
  state_ = State::kLeaving;
  deadline_ = now.PlusMs(plan_.leave_ms);
  step.retire = true;
  return step;
}

Supervisor::Step Supervisor::LauncherGone(TimePoint now) {
  launcher_gone_ = true;
  if (running_ == 0 || state_ == State::kKillingAll) return Step();
  Step step = Terminate(now, kKillAfterLauncherMs);
  step.signal_to_left = SIGTERM;
  return step;
}

Supervisor::Step Supervisor::Tick(TimePoint now) {
  Step step;
  if (now < deadline_) return step;
  if (state_ == State::kGrace || state_ == State::kLeaving) return Terminate(now, kKillAfterMs);
  const bool all = state_ == State::kKilling || launcher_gone_;
  state_ = all ? State::kKillingAll : State::kKilling;
  deadline_ = all ? TimePoint::Infinite() : now.PlusMs(kKillAfterMs);
  step.signal = SIGKILL;
  step.signal_to_left = all ? SIGKILL : SIGTERM;
  return step;
}

Supervisor::Step Supervisor::Terminate(TimePoint now, int64_t kill_after_ms) {
  Step step;
  state_ = State::kTerminating;
  terminated_at_ = now;
  deadline_ = now.PlusMs(kill_after_ms);
  step.signal = SIGTERM;
  return step;
}

const Supervisor::Failure* Supervisor::First() const {
  // A worker that was told of another's failure is the culprit only if no other is.
  auto first = std::min_element(failures_.begin(), failures_.end(), [](const Failure& a, const Failure& b) {
    return std::make_tuple(!a.end.removed_because.empty(), a.when) <
           std::make_tuple(!b.end.removed_because.empty(), b.when);
  });
  return first == failures_.end() ? nullptr : &*first;
}

std::string Supervisor::WhoHadLeft(TimePoint before) const {
  const auto first = std::min_element(ended_well_.begin(), ended_well_.end());
  if (first == ended_well_.end() || !(first->first < before)) return "";
  const auto count = std::count_if(ended_well_.begin(), ended_well_.end(),
                                   [before](const std::pair<TimePoint, Rank>& end) { return end.first < before; });
  const std::string others = count > 1 ? absl::StrCat(" and ", count - 1, count > 2 ? " others" : " other") : "";
  return absl::StrCat("; ", Word(), first->second.value(), others, " had left before, and exited with code 0");
}

void Supervisor::Say(Step* step) const {
  const Failure* first = First();
  if (first == nullptr && !launcher_gone_) return;
  if (first == nullptr) {
    step->sentence = "the launcher has ended or let go of this host, so its workers were ended";
    return;
  }
  if (!(first->when < asked_to_end_at_)) return;
  const WorkerEnd& end = first->end;
  if (!end.removed_because.empty()) {
    step->sentence = absl::StrCat("the job has failed: ", end.removed_because);
    return;
  }
  const std::string how = absl::StrCat(end.process.cause, end.process.code == 0 ? " without leaving the job" : "");
  const std::string who =
      absl::StrCat(Word(), end.rank.value(), " (pid ", end.process.pid, " on host ", plan_.host, ")");
  if (end.agent_stood_still_ms == 0) {
    step->sentence = absl::StrCat(who, " failed first: it ", how, WhoHadLeft(first->when));
    return;
  }
  step->sentence =
      absl::StrCat("the agent on host ", plan_.host, " was silent for ", end.agent_stood_still_ms / 1000,
                   " s, as a signal had stopped it or its machine was paused; the controller gives up the workers of "
                   "such an agent. Meanwhile ",
                   who, " ", how);
}

int Supervisor::ExitCode() const {
  const Failure* first = First();
  if (first == nullptr) return launcher_gone_ ? 1 : asked_to_leave_ && !finished_ ? plan_.code_of_others : 0;
  if (!first->end.removed_because.empty()) return plan_.code_of_others;
  return first->end.process.code == 0 ? 1 : first->end.process.code;
}

}  // namespace farandole::agent::processes
