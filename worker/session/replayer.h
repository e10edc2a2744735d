#ifndef FARANDOLE_WORKER_SESSION_REPLAYER_H_
#define FARANDOLE_WORKER_SESSION_REPLAYER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "base/clock.h"
#include "proto/messages.h"
#include "worker/session/begun_list.h"
#include "worker/session/effects.h"
#include "worker/session/in_flight.h"
#include "worker/session/process_set_table.h"
#include "worker/session/replay_cursor.h"
#include "worker/session/request_table.h"
#include "worker/session/window.h"

namespace farandole::worker::session {

// The modes of a member, over phases that both ends count, and what it knows of the replay that lasts or lasted last:
// W2 to W4 and W7 to W9 of docs/replay.md. Pure.
//
//   NEGOTIATE --Replay--> REPLAY --Halt--> HALTED --Resume--> NEGOTIATE
class Replayer {
 public:
  // All outlive this object.
  Replayer(const Window& window, RequestTable* table, InFlight* in_flight, const ProcessSetTable* sets)
      : window_(window), table_(table), in_flight_(in_flight), sets_(sets) {}

  // A generation begins, in phase 0.
  void Reset(const GenerationId& generation, Rank self);

  WorkerState mode() const { return mode_; }
  uint32_t phase() const { return phase_; }
  bool negotiates() const { return mode_ == WorkerState::kNegotiate; }
  // In REPLAY and HALTED, otherwise nullptr.
  const ReplayCursor* cursor() const { return cursor_.get(); }
  const BegunList& begun() const { return begun_; }
  void Fill(Hello* hello) const;
  void Fill(WorkerReport* report, TimePoint now) const;

  // A replay begins (W2): every open request is looked at again, as what was announced before is void.
  void Begin(uint64_t index, Period period, TimePoint now);
  // REPLAY -> HALTED. False, and nothing changes, while negotiating or in another phase.
  bool Halt(uint32_t phase);
  // Negotiation goes on (W9). False: that is not the replay that lasts.
  bool End(const Resume& resume);
  // Others had begun an instance in the replay (W7). True: this worker had not, and executes it now.
  bool Enters(const Enter& enter);
  // What was begun is given up; here it is taken back, and its requests are open again (W8). False, and nothing
  // changes: it names a final instance.
  bool TakeBackInto(const Withdraw& withdraw, Effects* effects);

  // In REPLAY: a request is open, again or for the first time. It becomes part of a batch, or ground for a Break (W3a).
  void Open(const Operation& operation, TimePoint now) {
    BreakReason why_not;
    if (!cursor_->Open(operation, now, &why_not)) WantBreak(why_not, {operation.request.name});
  }
  // Starts the batches that come next and are complete, in the order of the period (W4). In REPLAY; nothing otherwise.
  void StartInto(TimePoint now, Effects* effects);

  // The script does something else than the period (W3). In REPLAY, the first time in a phase; nothing otherwise.
  void WantBreak(BreakReason reason, std::vector<std::string> names);
  // When a batch that is first has been incomplete for too long (W3b).
  TimePoint PatienceEnds() const;
  void Tick(TimePoint now);
  bool Blocked(const Operation& operation, TimePoint now);
  // Set once after a Break came to be wanted (W3), if not said in a Hello meanwhile: to be sent.
  absl::optional<Break> TakeBreak();
  // A Hello has said whether a Break is wanted.
  void BreakTold() { break_told_ = break_.has_value(); }

 private:
  const Window window_;
  RequestTable* const table_;
  InFlight* const in_flight_;
  const ProcessSetTable* const sets_;
  GenerationId generation_;
  Rank self_;
  WorkerState mode_ = WorkerState::kNegotiate;
  uint32_t phase_ = 0;
  std::unique_ptr<ReplayCursor> cursor_;
  absl::optional<Break> break_;
  bool break_told_ = false;
  BegunList begun_;
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_REPLAYER_H_
