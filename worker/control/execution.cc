#include "worker/control/execution.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::worker::control {
namespace {

std::string Describe(const session::Work& work, const absl::Status& reason) {
  if (work.operations.empty()) {
    return absl::StrCat("a collective that this rank has no tensor in failed: ", reason.message());
  }
  const Request& first = work.operations[0]->request;
  std::string text = absl::StrCat(Name(first.signature.op), " of \"", first.name, "\"");
  if (work.operations.size() > 1) absl::StrAppend(&text, " and ", work.operations.size() - 1, " more");
  return absl::StrCat(text, " failed: ", reason.message());
}

}  // namespace

void Execution::OnDone(session::Work work) {
  timeline_->Executed(work);
  {
    absl::MutexLock lock(steps_->mutex());
    // Before the script is told, so that it can use the names again and its next announcement says what is done.
    steps_->session().Completed(work);
    steps_->tally().Done(work, loop_->Now(), true);
  }
  for (const auto& operation : work.operations) {
    if (operation != nullptr) operation->Finish(work.error);
  }
  {
    Steps::Step step(steps_);
    steps_->Apply(steps_->session().AfterCompleted(loop_->Now()));
  }
  if (work.kind == session::Work::Kind::kLeaveDone) steps_->changed().Advance();
}

void Execution::OnWithdrawn(session::Work work) {
  Steps::Step step(steps_);
  steps_->tally().Done(work, loop_->Now(), false);
  steps_->Apply(steps_->session().Withdrawn(std::move(work), loop_->Now()));
}

void Execution::OnBroken(session::Work work, const absl::Status& reason, Rank suspect) {
  // Zeros of a rank that has joined are nobody's.
  work.operations.erase(std::remove(work.operations.begin(), work.operations.end(), nullptr), work.operations.end());
  const std::string text = Describe(work, reason);
  Steps::Step step(steps_);
  steps_->Apply(steps_->session().DataPlaneFailed(text, suspect));
  if (steps_->session().state() != session::Session::State::kBroken) {
    return steps_->End(std::move(work.operations), steps_->session().end());
  }
  steps_->LogAfterStep(os::LogLevel::kInfo, text);
  steps_->Park(std::move(work.operations));
  loop_->Post([this, text] {
    loop_->AddTimerFromLoop(loop_->Now().PlusMs(verdict_ms_), [this, text] {
      Steps::Step step(steps_);
      steps_->Apply(steps_->session().GiveUp({completion::Code::kPeerLost, text}));
    });
  });
}

}  // namespace farandole::worker::control
