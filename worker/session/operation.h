#ifndef FARANDOLE_WORKER_SESSION_OPERATION_H_
#define FARANDOLE_WORKER_SESSION_OPERATION_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/types.h"
#include "worker/completion/callbacks.h"
#include "worker/completion/result.h"
#include "worker/device/device.h"
#include "worker/os/event_count.h"

namespace farandole::worker::session {

// One submission: what is asked, the caller's memory, and the outcome. Shared by the script's handle and whoever works
// on it. The executor alone touches tensors and `gathered`, and only before Finish. Kept small: a step has hundreds.
class Operation {
 public:
  // Of tensors in the memory of a device.
  struct OnDevice {
    device::Device* device;  // outlives the operation
    void* stream;            // that of the framework on which it was submitted
    device::EventPtr ready;  // the moment there when it was
  };

  // Who asks for the same again and again may share the request: those who have seen it need not look at it then.
  // `on_device` is null for host memory.
  Operation(std::shared_ptr<const Request> shared, const void* input, void* output,
            std::unique_ptr<const completion::Callbacks> callbacks = nullptr,
            std::unique_ptr<const OnDevice> on_device = nullptr)
      : shared_request(std::move(shared)),
        input(input),
        output(output),
        callbacks(std::move(callbacks)),
        on_device(std::move(on_device)),
        request(*shared_request) {
    if (this->on_device != nullptr) enqueued_ = std::make_unique<WhenEnqueued>();
  }
  Operation(Request request, const void* input, void* output,
            std::unique_ptr<const completion::Callbacks> callbacks = nullptr,
            std::unique_ptr<const OnDevice> on_device = nullptr)
      : Operation(std::make_shared<const Request>(std::move(request)), input, output, std::move(callbacks),
                  std::move(on_device)) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  const std::shared_ptr<const Request> shared_request;
  const void* const input;  // null for barriers, and for a broadcast elsewhere than at its root
  void* const output;       // null for allgathers, alltoalls and barriers, and where PlaceResult is asked
  const std::unique_ptr<const completion::Callbacks> callbacks;  // null: who asked looks at the handle
  const std::unique_ptr<const OnDevice> on_device;
  // When the script submitted it, by the monotonic clock.
  int64_t submitted_ns = 0;
  // Of the RequestTable that took it: which one it is there; see also `place`.
  uint64_t order = 0;

  // A result whose memory the caller has not given: of allgathers, alltoalls, and reducescatters without output.
  struct Gathered {
    std::shared_ptr<void> data;  // null: the result is in the submitter's memory
    device::EventPtr ready;      // of `data` on a device: when it is there
    void* place = nullptr;       // where it is
    std::vector<int64_t> shape;
    std::vector<int64_t> splits;  // alltoall: how many rows came from each member
  };
  std::unique_ptr<Gathered> gathered;
  // Executor, before the collective, and once more if that was withdrawn: makes `gathered` with memory for a result of
  // `bytes`: the submitter's if it allocates. If that gives none, ours, so that the collective can go on, and the
  // operation will end with kNoMemory. Null: this process has no memory either; not OK: what its device says of that.
  absl::StatusOr<void*> PlaceResult(std::vector<int64_t> shape, int64_t bytes);

  // From here on what is looked at for each operation of a replay; close together.
  const Request& request;
  // Where the RequestTable has it, equal for operations of one process set and name that follow each other soon.
  static constexpr uint32_t kNowhere = UINT32_MAX;
  uint32_t place = kNowhere;
  // Join: the rank that joined last. Change of process sets: the id.
  int32_t value = 0;

  // Exactly once. Wakes the waiters, and what follows may submit the next operation at once: so the caller holds a
  // reference until it returns and no lock of ours, and is not inside the call that submitted this. Callbacks run in
  // their own thread.
  void Finish(const completion::Result& result) {
    if (done() || !result.ok()) Fail(result);
    finished_.Advance();
    if (enqueued_ != nullptr) enqueued_->changed.Advance();
    if (callbacks != nullptr) callbacks->Finish(this->result());
  }

  bool done() const { return finished_.Value() != 0; }
  // False after `timeout_ms` (negative: waits for ever).
  bool Wait(int timeout_ms);

  // Executor, at most once: the result is there after this moment, of the operation's device.
  void Enqueued(device::EventPtr event);
  // Of an operation on a device. True: it is enqueued there, and `*event` is that moment, or it has failed before it
  // was, and `*event` is null. False after `timeout_ms`.
  bool WaitEnqueued(int timeout_ms, device::EventPtr* event);
  bool enqueued() const { return enqueued_ != nullptr && enqueued_->told.load(std::memory_order_acquire); }

  // After done().
  const completion::Result& result() const { return failure_ != nullptr ? *failure_ : Well(); }
  completion::Code code() const { return failure_ != nullptr ? failure_->code : completion::Code::kOk; }

 private:
  static const completion::Result& Well();
  void Fail(const completion::Result& result);

  std::unique_ptr<const completion::Result> failure_;  // null: it went well
  os::EventCount finished_;                            // advances once
  struct WhenEnqueued {
    device::EventPtr event;  // constant from the first change on that is not the end
    std::atomic<bool> told{false};
    os::EventCount changed;
  };
  std::unique_ptr<WhenEnqueued> enqueued_;  // null: host memory
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_OPERATION_H_
