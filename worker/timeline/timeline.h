#ifndef FARANDOLE_WORKER_TIMELINE_TIMELINE_H_
#define FARANDOLE_WORKER_TIMELINE_TIMELINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "proto/messages.h"
#include "worker/os/event_count.h"
#include "worker/timeline/timeline_events.h"
#include "worker/timeline/timeline_file.h"

namespace farandole::worker::timeline {

// The timeline of a job at one rank. Rank 0 writes the file, with what it has seen itself and what the others report:
// when they were ready, for batches of a replay as well, which no controller sees. While it is off it costs one look at
// a flag. Thread-safe.
//
// A batch is written when all ranks have reported it or kWaitMs after its end, so that it is in the file 100 ms after.
class Timeline {
 public:
  // How often the file is written, and the others report; what a batch waits for reports; both far below 100 ms.
  static constexpr int kTickMs = 20;
  static constexpr int kWaitMs = 60;
  // Batches that wait; beyond it the oldest are lost, and the file says how many.
  static constexpr size_t kPendingMax = 1 << 16;

  Timeline(Rank self, int size);
  // Stop().
  ~Timeline();

  // Rank 0: begins the file, on a thread of its own ("farandole-tl"). FAILED_PRECONDITION if one is being written,
  // INVALID_ARGUMENT if the file cannot be opened, RESOURCE_EXHAUSTED if there is no thread. `mark_cycles`: a mark at
  // the beginning of each batch.
  absl::Status StartWriting(const std::string& path, bool mark_cycles);
  // Others: collects records for TakeRecords.
  void StartReporting();
  // What has been executed is in the file when it returns.
  void Stop();
  bool on() const { return on_.load(std::memory_order_relaxed); }

  // A batch was executed here. No effect while off.
  void Executed(BatchTrace batch);
  // Rank 0: another rank's report.
  void Received(const Trace& trace);
  // Others: what was executed since the last call.
  std::vector<TraceRecord> TakeRecords();

 private:
  using Key = std::pair<uint64_t, uint64_t>;  // anchor, seq
  struct Reports {
    std::vector<std::vector<uint64_t>> ready_us;  // by rank
    int count = 0;
    int64_t since_ns = 0;
  };
  void Run(TimelineFile* file);
  // Moves what may be written now out of pending_.
  std::deque<std::pair<BatchTrace, Reports>> TakeDue(int64_t now_ns, bool all) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void WriteDue(TimelineFile* file, bool all);

  const Rank self_;
  const int size_;
  std::atomic<bool> on_{false};
  os::EventCount changed_;
  std::thread thread_;
  int64_t start_ns_ = 0;       // constant while the thread runs
  bool mark_cycles_ = false;   // the same
  absl::Mutex control_mutex_;  // start and stop, one at a time
  absl::Mutex mutex_;
  bool stopping_ ABSL_GUARDED_BY(mutex_) = false;
  std::deque<BatchTrace> pending_ ABSL_GUARDED_BY(mutex_);
  std::map<Key, Reports> reports_ ABSL_GUARDED_BY(mutex_);
  std::vector<TraceRecord> records_ ABSL_GUARDED_BY(mutex_);
  uint64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace farandole::worker::timeline

#endif  // FARANDOLE_WORKER_TIMELINE_TIMELINE_H_
