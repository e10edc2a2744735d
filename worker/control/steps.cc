#include "worker/control/steps.h"

#include <utility>

namespace farandole::worker::control {

Steps::Steps(session::Session::Identity identity, const Parts& parts, std::function<void()> joined)
    : parts_(parts),
      joined_(std::move(joined)),
      watch_(parts.loop, [this] { return TickFromLoop(); }),
      session_(std::move(identity)) {}

TimePoint Steps::TickFromLoop() {
  Step step(this);
  Apply(session_.Tick(parts_.loop->Now()));
  return session_.NextDeadline();
}

void Steps::Apply(session::Effects effects) {
  for (const WorkerUp& up : effects.send) parts_.link->Send(up);
  // Before the executor gets something to do.
  parts_.idle->SetSilent(!session_.replayer().negotiates());
  tally_.Sent(effects.send.size());
  if (effects.joined) {
    joined_();
    after_step_.push_back([this] { changed_.Advance(); });
  }
  for (session::Work& work : effects.work) {
    parts_.timeline->Dispatched(&work);
    tally_.Given(&work, parts_.loop->Now());
    parts_.executor->Push(std::move(work));
    wake_executor_ = true;
  }
  for (const session::TakeBack& back : effects.withdraw) parts_.executor->Withdraw(back.process_set, back.instance);
  if (!effects.notice.empty()) LogAfterStep(os::LogLevel::kWarning, std::move(effects.notice));
  if (effects.removed || !effects.endings.empty()) EndAll(std::move(effects));
  WatchDeadline();
}

void Steps::EndAll(session::Effects effects) {
  if (effects.removed) {
    const std::string& reason = session_.end().text;
    for (session::Work& work : parts_.executor->Abort(reason)) {
      // The whole job fails with an error of the controller's, however late this rank hears of it.
      const bool is_error = work.kind == session::Work::Kind::kError;
      End(std::move(work.operations), is_error ? work.error : session_.end());
    }
    for (auto& operation : parked_) effects.endings.push_back(std::move(operation));
    parked_.clear();
    tally_.Ended();
    parts_.link->EndWaits(reason);
  }
  End(std::move(effects.endings), session_.end());
}

void Steps::Park(std::vector<std::shared_ptr<session::Operation>> operations) {
  for (auto& operation : operations) parked_.push_back(std::move(operation));
}

void Steps::End(std::vector<std::shared_ptr<session::Operation>> operations, completion::Result end) {
  ++endings_;
  after_step_.push_back([this, operations = std::move(operations), end = std::move(end)] {
    for (const auto& operation : operations) {
      if (operation != nullptr) operation->Finish(end);
    }
    {
      absl::MutexLock lock(&mutex_);
      --endings_;
    }
    changed_.Advance();
  });
}

void Steps::LogAfterStep(os::LogLevel level, std::string text) {
  if (!os::LogEnabled(level)) return;
  after_step_.push_back([level, text = std::move(text)] { os::Log(level, text); });
}

void Steps::EndStep() {
  const bool wake = std::exchange(wake_executor_, false);
  std::vector<std::function<void()>> after;
  after.swap(after_step_);
  mutex_.Unlock();
  // Not before the session is free: an executor that is woken on this very CPU takes it at once, and would wait for the
  // session.
  if (wake) parts_.executor->Wake();
  for (auto& left : after) parts_.loop->InLoop() ? parts_.loop->Afterwards(std::move(left)) : left();
}

void Steps::AwaitEndings() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(
      +[](int* endings) { return *endings == 0; }, &endings_));
}

}  // namespace farandole::worker::control
