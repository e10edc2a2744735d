#ifndef FARANDOLE_WORKER_SESSION_OPERATION_H_
#define FARANDOLE_WORKER_SESSION_OPERATION_H_

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

#include "proto/types.h"
#include "worker/completion/callbacks.h"
#include "worker/completion/result.h"
#include "worker/os/event_count.h"

namespace farandole::worker::session {

// One submission: what is asked, the caller's memory, and the outcome. Shared by the script's handle and whoever works
// on it. The executor alone touches tensors and `gathered`, and only before Finish. Kept small: a step has hundreds.
class Operation {
 public:
  // Who asks for the same again and again may share the request: those who have seen it need not look at it then.
  Operation(std::shared_ptr<const Request> shared, const void* input, void* output,
            std::unique_ptr<const completion::Callbacks> callbacks = nullptr)
      : shared_request(std::move(shared)),
        input(input),
        output(output),
        callbacks(std::move(callbacks)),
        request(*shared_request) {}
  Operation(Request request, const void* input, void* output,
            std::unique_ptr<const completion::Callbacks> callbacks = nullptr)
      : Operation(std::make_shared<const Request>(std::move(request)), input, output, std::move(callbacks)) {}
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  const std::shared_ptr<const Request> shared_request;
  const void* const input;  // null for barriers, and for a broadcast elsewhere than at its root
  void* const output;       // null for allgathers, alltoalls and barriers, and where PlaceResult is asked
  const std::unique_ptr<const completion::Callbacks> callbacks;  // null: who asked looks at the handle
  // When the script submitted it, by the monotonic clock.
  int64_t submitted_ns = 0;
  // Of the RequestTable that took it: which one it is there; see also `place`.
  uint64_t order = 0;

  // A result whose memory the caller has not given: of allgathers, alltoalls, and reducescatters without output.
  struct Gathered {
    struct Free {
      void operator()(void* p) const { std::free(p); }
    };
    std::unique_ptr<void, Free> data;  // null: the result is in the submitter's memory
    void* place = nullptr;             // where it is
    std::vector<int64_t> shape;
    std::vector<int64_t> splits;  // alltoall: how many rows came from each member
  };
  std::unique_ptr<Gathered> gathered;
  // Executor, before the collective, and once more if that was withdrawn: makes `gathered` with memory for a result of
  // `bytes`: the submitter's if it allocates. If that gives none, ours, so that the collective can go on, and the
  // operation will end with kNoMemory. Null: this process has no memory either.
  void* PlaceResult(std::vector<int64_t> shape, int64_t bytes);

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
    if (callbacks != nullptr) callbacks->Finish(this->result());
  }

  bool done() const { return finished_.Value() != 0; }
  // False after `timeout_ms` (negative: waits for ever).
  bool Wait(int timeout_ms);
  // After done().
  const completion::Result& result() const { return failure_ != nullptr ? *failure_ : Well(); }
  completion::Code code() const { return failure_ != nullptr ? failure_->code : completion::Code::kOk; }

 private:
  static const completion::Result& Well();
  void Fail(const completion::Result& result);

  std::unique_ptr<const completion::Result> failure_;  // null: it went well
  os::EventCount finished_;                            // advances once
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_OPERATION_H_
