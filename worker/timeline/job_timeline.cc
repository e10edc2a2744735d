#include "worker/timeline/job_timeline.h"

#include <utility>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "worker/timeline/work_trace.h"

namespace farandole::worker::timeline {

void JobTimeline::Joined(const GenerationId& generation, Rank self, int size) {
  generation_ = generation;
  self_ = self;
  size_ = size;
  timeline_ = std::make_unique<Timeline>(self, size);
}

absl::Status JobTimeline::Start(const std::string& path, bool mark_cycles) {
  if (!writes()) return absl::OkStatus();
  const absl::Status status = timeline_->StartWriting(path, mark_cycles);
  if (status.ok()) Tell(true);
  return status;
}

void JobTimeline::Stop() {
  if (timeline_ == nullptr || !writes()) return;
  if (timeline_->on()) Tell(false);
  timeline_->Stop();
}

void JobTimeline::Tell(bool on) {
  told_.store(true);
  if (size_ > 1) link_->Send(TraceControl{generation_, on});
}

void JobTimeline::ReceivedFromLoop(const WorkerDown& message) {
  if (timeline_ == nullptr) return;
  if (std::holds_alternative<Welcome>(message)) {
    if (told_.load()) Tell(timeline_->on());
  } else if (const auto* trace = std::get_if<Trace>(&message)) {
    if (trace->generation == generation_) timeline_->Received(*trace);
  } else if (const auto* control = std::get_if<TraceControl>(&message)) {
    if (writes() || control->generation != generation_) return;
    if (!control->on) return timeline_->Stop();
    timeline_->StartReporting();
    if (!std::exchange(reporting_, true)) ReportFromLoop();
  }
}

void JobTimeline::ReportFromLoop() {
  std::vector<TraceRecord> records = timeline_->TakeRecords();
  if (!records.empty()) link_->Send(Trace{generation_, self_, std::move(records)});
  reporting_ = timeline_->on();
  if (!reporting_) return;
  loop_->AddTimerFromLoop(loop_->Now().PlusMs(Timeline::kTickMs), [this] { ReportFromLoop(); });
}

void JobTimeline::Dispatched(session::Work* work) const {
  if (timeline_ == nullptr || !timeline_->on() || work->kind != session::Work::Kind::kBatch) return;
  work->trace = std::make_shared<session::Work::Trace>();
  work->trace->in_timeline = true;
  work->trace->dispatched_ns = Clock::Monotonic().Now().ns();
}

void JobTimeline::Executed(const session::Work& work) {
  if (work.trace == nullptr || !work.trace->in_timeline) return;
  timeline_->Executed(TraceOf(work, Clock::Monotonic().Now().ns()));
}

}  // namespace farandole::worker::timeline
