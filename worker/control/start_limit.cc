#include "worker/control/start_limit.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace farandole::worker::control {

using State = session::Session::State;

void StartLimit::StartFromLoop() {
  const TimePoint now = loop_->Now();
  if (options_.elastic) {
    loop_->AddTimerFromLoop(now.PlusMs(options_.start_timeout_ms), [this] { AnswerTimeOver(); });
  }
  loop_->AddTimerFromLoop(now.PlusMs(options_.timeout_ms), [this] { TimeOver(); });
  // Late enough to be true at the end, early enough for the answer.
  const uint32_t ask_ms = std::min<uint32_t>(1000, options_.timeout_ms / 4);
  loop_->AddTimerFromLoop(now.PlusMs(options_.timeout_ms - ask_ms), [this] { AskAgain(); });
}

void StartLimit::AskAgain() {
  Steps::Step step(steps_);
  if (steps_->session().state() == State::kJoining) steps_->Apply(steps_->session().AskAgain());
}

void StartLimit::TimeOver() {
  Steps::Step step(steps_);
  session::Session& session = steps_->session();
  if (session.state() != State::kJoining) return;
  const bool answered = events_->link_state().connected && session.answered();
  const completion::Code code = answered ? completion::Code::kTimeout : completion::Code::kUnavailable;
  steps_->Apply(session.GiveUp({code, WhatIsMissing()}));
}

void StartLimit::AnswerTimeOver() {
  Steps::Step step(steps_);
  session::Session& session = steps_->session();
  if (session.state() != State::kJoining || session.answered()) return;
  steps_->Apply(session.GiveUp({completion::Code::kUnavailable, WhatIsMissing()}));
}

std::string StartLimit::WhatIsMissing() const {
  const LinkState& link = events_->link_state();
  const bool answered = steps_->session().answered();
  const bool waits_long = options_.elastic && answered;
  const uint32_t ms = waits_long ? options_.timeout_ms : options_.start_timeout_ms;
  const std::string within = absl::StrCat(" within ", ms / 1000.0, " s",
                                          waits_long ? " (FARANDOLE_ELASTIC_TIMEOUT)" : " (FARANDOLE_START_TIMEOUT)");
  if (!link.connected) {
    return absl::StrCat("no way to the controller", within, ": ",
                        link.text.empty() ? "the agent has not said anything" : link.text);
  }
  if (!answered) return absl::StrCat("the controller has not answered", within);
  return WhoIsMissing(within);
}

std::string StartLimit::WhoIsMissing(const std::string& within) const {
  const session::Session& session = steps_->session();
  if (options_.elastic && session.waiting() < session.needed()) {
    return absl::StrCat("only ", session.waiting(), " of the ", session.needed(),
                        " processes that the job needs have called init()", within,
                        "; look at whether hosts are lost, and at the output of processes that ended");
  }
  if (options_.elastic) {
    return absl::StrCat("the job has not taken this process in", within,
                        "; its members accept new workers at their next commit, if there is room");
  }
  const std::vector<Rank>& missing = session.missing_ranks();
  if (missing.empty()) {
    return absl::StrCat("the job did not start", within,
                        "; processes of its last run may still be shutting down, look for them on its hosts");
  }
  const std::string ranks =
      absl::StrJoin(missing, ", ", [](std::string* out, Rank rank) { absl::StrAppend(out, rank.value()); });
  return absl::StrCat(missing.size() == 1 ? "rank " : "ranks ", ranks, " of ", options_.size,
                      missing.size() == 1 ? " has" : " have", " not called init()", within, "; look at ",
                      missing.size() == 1 ? "its" : "their",
                      " output, and whether all processes of the job were started");
}

}  // namespace farandole::worker::control
