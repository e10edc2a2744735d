#ifndef FARANDOLE_WORKER_EXECUTE_BATCH_RUN_H_
#define FARANDOLE_WORKER_EXECUTE_BATCH_RUN_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "worker/collective/collective.h"
#include "worker/collective/communicator.h"
#include "worker/collective/group.h"
#include "worker/execute/batch_parts.h"
#include "worker/session/operation.h"
#include "worker/session/work.h"

namespace farandole::worker::execute {

// A batch on its way through a communicator: one collective for each of its parts, two for an alltoall, which all
// members number and start alike. Puts results where the script wants them. Knows nothing of the control plane.
//
// What it starts may last while it starts the next; it has ended when everything that it started has. Used by one
// thread, the issuer (who starts batches: the executor's), but for what `done` calls. Can begin again after it has
// ended.
class BatchRun {
 public:
  // From any thread, not under a lock of ours. `go_on`: Issue can go on. `ended`: once for each Begin, the last thing
  // that the run does.
  struct Events {
    std::function<void()> go_on;
    std::function<void()> ended;
  };
  explicit BatchRun(Events events) : events_(std::move(events)) {}
  BatchRun(const BatchRun&) = delete;
  BatchRun& operator=(const BatchRun&) = delete;

  // All outlive the run.
  void Begin(const session::Work* work, const collective::Group* group, collective::Communicator* communicator);
  // Starts what can be started. False: what comes next depends on what has not ended; call again after `go_on`.
  bool Issue();
  // After it has ended: the status of the collective that failed first; RESOURCE_EXHAUSTED when there is no memory;
  // INTERNAL when the batch has an entry that no controller sends.
  absl::Status status() const;

 private:
  // A part that has been started, or is about to be.
  struct Part {
    BatchPart entries;
    collective::Collective collective;
    // Of an alltoall, which first tells the others how many rows they get.
    std::vector<int64_t> rows_sent, rows_received;
  };
  enum class Step : uint8_t { kStarted, kWaits, kFailed };

  Step IssuePart(Part* part);
  Step IssueAlltoall(Part* part);
  // Fills part->collective from the entries of the work.
  absl::Status Prepare(Part* part);
  void PrepareAllreduce(Part* part);
  absl::Status PrepareReducescatter(Part* part);
  absl::Status PrepareAllgather(Part* part);
  absl::Status PrepareBroadcast(Part* part);
  absl::Status PrepareNumbers(Part* part);
  absl::Status PrepareRows(Part* part);
  std::vector<collective::Piece> PiecesOf(const BatchPart& entries) const;
  const Signature& signature(const Part& part) const { return work_->signature(part.entries[0]); }
  session::Operation* operation(const Part& part) const { return work_->operations[part.entries[0]].get(); }

  // Of a part on a device: what its collective has to come after; its results' memory is there.
  absl::Status AddReady(Part* part);
  // On a device, the operations of a part that is not awaited are told when it is enqueued.
  void Start(const collective::Instance& instance, const Part& part, bool awaited);
  void Done(const absl::Status& status, bool awaited);
  // Of a part that the communicator has not been given. It takes no later one, either: the other members would take
  // that for this part.
  Step Refuse(const absl::Status& status);
  Step Fail(const absl::Status& status);
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  // One of what keeps the run open is over.
  void Close();

  const Events events_;
  // Issuer only, from Begin on.
  const session::Work* work_ = nullptr;
  const collective::Group* group_ = nullptr;
  collective::Communicator* communicator_ = nullptr;
  collective::Instance instance_;
  std::vector<Part> parts_;
  size_t next_ = 0;
  bool told_numbers_ = false;  // of parts_[next_], an alltoall

  // Collectives that have not ended, and one for the issuer until it has started all.
  std::atomic<int> open_{0};
  std::atomic<bool> answered_{false};  // what Issue waits for has ended
  std::atomic<bool> failed_{false};
  mutable absl::Mutex mutex_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::execute

#endif  // FARANDOLE_WORKER_EXECUTE_BATCH_RUN_H_
