#include "worker/control/link_events.h"

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/cut_text.h"

namespace farandole::worker::control {
namespace {

using State = session::Session::State;

constexpr int kAckMs = 1000;
// Between two looks at an outage, at least.
constexpr int64_t kOutageLookMs = 10;
constexpr size_t kCommunicatesByBytesMax = 1024;

}  // namespace

void LinkEvents::OnLinkState(const LinkState& state) {
  Steps::Step step(steps_);
  link_state_ = state;
  if (state.connected) {
    outage_.Found();
    steps_->Apply(steps_->session().LinkUp());
    return;
  }
  outage_.Lost(state.text, loop_->Now());
  if (!std::exchange(outage_watched_, true)) loop_->Post([this] { LookAtOutageFromLoop(); });
  steps_->session().LinkDown();
  if (steps_->session().state() != State::kJoining) {
    steps_->LogAfterStep(os::LogLevel::kInfo, absl::StrCat("the way to the controller is interrupted: ", state.text));
  } else if (state.permanent) {
    steps_->Apply(steps_->session().GiveUp({completion::Code::kRefused, state.text}));
  }
}

void LinkEvents::LookAtOutageFromLoop() {
  Steps::Step step(steps_);
  const session::Session& session = steps_->session();
  outage_watched_ = outage_.lost() && (session.state() == State::kJoining || session.state() == State::kMember);
  if (!outage_watched_) return;
  const TimePoint now = loop_->Now();
  WorkerReport report;
  session.Fill(&report, now);
  steps_->tally().FillInFlight(&report, now);
  const int64_t left_ms = outage_.LeftMs(report, now);
  // Who has not joined yet has the bound of init().
  if (left_ms == 0 && session.state() == State::kMember) {
    return steps_->Apply(steps_->session().GiveUp({completion::Code::kPeerLost, outage_.Sentence(report, now)}));
  }
  loop_->AddTimerFromLoop(now.PlusMs(std::max<int64_t>(left_ms, kOutageLookMs)), [this] { LookAtOutageFromLoop(); });
}

void LinkEvents::OnReceived(WorkerDown message) {
  const bool traces = std::holds_alternative<Trace>(message) || std::holds_alternative<TraceControl>(message);
  if (traces || std::holds_alternative<Welcome>(message)) timeline_->ReceivedFromLoop(message);
  if (traces) return;
  bool ack_due;
  {
    Steps::Step step(steps_);
    steps_->Apply(steps_->session().Received(std::move(message), loop_->Now()));
    ack_due = steps_->session().AckDue();
  }
  if (ack_due) ArmAckTimerFromLoop();
}

WorkerReport LinkEvents::Report() {
  absl::MutexLock lock(steps_->mutex());
  WorkerReport report;
  const TimePoint now = loop_->Now();
  steps_->session().Fill(&report, now);
  steps_->tally().Fill(&report, now);
  // It is the same for all.
  const std::vector<Member>& members = steps_->session().view().members;
  if (!members.empty() && members[0].worker_incarnation == report.worker_incarnation) {
    report.communicates_by = std::string(CutText(steps_->CommunicatesBy(), kCommunicatesByBytesMax));
  }
  return report;
}

void LinkEvents::ArmAckTimerFromLoop() {
  if (ack_timer_armed_) return;
  ack_timer_armed_ = true;
  loop_->AddTimerFromLoop(loop_->Now().PlusMs(kAckMs), [this] { AckTimeOver(); });
}

void LinkEvents::AckTimeOver() {
  ack_timer_armed_ = false;
  bool again;
  {
    Steps::Step step(steps_);
    steps_->Apply(steps_->session().SendAck());
    again = steps_->session().executing();
  }
  if (again) ArmAckTimerFromLoop();
}

}  // namespace farandole::worker::control
