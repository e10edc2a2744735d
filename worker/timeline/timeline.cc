#include "worker/timeline/timeline.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/start_thread.h"
#include "worker/os/log.h"

namespace farandole::worker::timeline {
namespace {

// A report of a batch that this rank never executes (another process set) is dropped after this.
constexpr int64_t kForgetNs = 5000000000;

int64_t Now() { return Clock::Monotonic().Now().ns(); }

}  // namespace

Timeline::Timeline(Rank self, int size) : self_(self), size_(size) {}

Timeline::~Timeline() { Stop(); }

absl::Status Timeline::StartWriting(const std::string& path, bool mark_cycles) {
  absl::MutexLock control(&control_mutex_);
  if (thread_.joinable()) {
    return absl::FailedPreconditionError("a timeline is being written; stop_timeline() ends it");
  }
  auto file = TimelineFile::Open(path, absl::GetCurrentTimeNanos() / 1000);
  if (!file.ok()) return file.status();
  start_ns_ = Now();
  mark_cycles_ = mark_cycles;
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = false;
    pending_.clear();
    reports_.clear();
    lost_ = 0;
  }
  absl::StatusOr<std::thread> thread =
      StartThread("farandole-tl", [this, file = std::shared_ptr<TimelineFile>(*std::move(file))] { Run(file.get()); });
  if (!thread.ok()) return thread.status();
  thread_ = *std::move(thread);
  on_.store(true);
  return absl::OkStatus();
}

void Timeline::StartReporting() { on_.store(true); }

void Timeline::Stop() {
  absl::MutexLock control(&control_mutex_);
  on_.store(false);
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  changed_.Advance();
  if (thread_.joinable()) thread_.join();
  absl::MutexLock lock(&mutex_);
  records_.clear();
}

void Timeline::Executed(BatchTrace batch) {
  if (!on()) return;
  absl::MutexLock lock(&mutex_);
  if (self_ != Rank(0)) {
    if (records_.size() < kPendingMax) records_.push_back(RecordOf(batch));
    return;
  }
  if (pending_.size() >= kPendingMax) {
    pending_.pop_front();
    ++lost_;
  }
  pending_.push_back(std::move(batch));
}

void Timeline::Received(const Trace& trace) {
  if (!on() || !trace.rank.known() || trace.rank.value() >= size_) return;
  const int64_t now = Now();
  absl::MutexLock lock(&mutex_);
  for (const TraceRecord& record : trace.records) {
    Reports& reports = reports_[{record.anchor, record.seq}];
    if (reports.ready_us.empty()) {
      reports.ready_us.resize(size_);
      reports.since_ns = now;
    }
    std::vector<uint64_t>& slot = reports.ready_us[trace.rank.value()];
    if (slot.empty()) ++reports.count;
    slot = record.ready_us;
  }
}

std::vector<TraceRecord> Timeline::TakeRecords() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(records_, {});
}

std::deque<std::pair<BatchTrace, Timeline::Reports>> Timeline::TakeDue(int64_t now_ns, bool all) {
  std::deque<std::pair<BatchTrace, Reports>> due;
  while (!pending_.empty()) {
    BatchTrace& batch = pending_.front();
    const Key key{batch.instance.anchor, batch.instance.seq};
    auto reports = reports_.find(key);
    const bool complete = reports != reports_.end() && reports->second.count >= size_ - 1;
    if (!all && !complete && size_ > 1 && now_ns - batch.end_ns < kWaitMs * int64_t{1000000}) break;
    due.emplace_back(std::move(batch), reports == reports_.end() ? Reports() : std::move(reports->second));
    if (reports != reports_.end()) reports_.erase(reports);
    pending_.pop_front();
  }
  for (auto it = reports_.begin(); it != reports_.end();) {
    it = now_ns - it->second.since_ns > kForgetNs ? reports_.erase(it) : std::next(it);
  }
  return due;
}

void Timeline::WriteDue(TimelineFile* file, bool all) {
  std::deque<std::pair<BatchTrace, Reports>> due;
  uint64_t lost;
  {
    absl::MutexLock lock(&mutex_);
    due = TakeDue(Now(), all);
    lost = std::exchange(lost_, 0);
  }
  if (lost > 0) file->Mark(absl::StrCat("LOST ", lost, " BATCHES"), (Now() - start_ns_) / 1000);
  for (const auto& [batch, reports] : due) {
    if (mark_cycles_) file->Mark("CYCLE_START", (batch.begin_ns - start_ns_) / 1000);
    WriteBatch(batch, self_, reports.ready_us, start_ns_, file);
  }
}

void Timeline::Run(TimelineFile* file) {
  for (bool last = false; !last;) {
    const uint32_t seen = changed_.Value();
    {
      absl::MutexLock lock(&mutex_);
      last = stopping_;
    }
    WriteDue(file, last);
    const absl::Status status = file->Flush();
    if (!status.ok()) {
      os::Log(os::LogLevel::kWarning, absl::StrCat(status.message(), "; the timeline ends here"));
      on_.store(false);
      return;
    }
    if (!last) changed_.WaitPast(seen, kTickMs);
  }
}

}  // namespace farandole::worker::timeline
