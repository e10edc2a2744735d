#ifndef FARANDOLE_WORKER_SESSION_SESSION_H_
#define FARANDOLE_WORKER_SESSION_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "proto/messages.h"
#include "worker/session/effects.h"
#include "worker/session/in_flight.h"
#include "worker/session/item_reader.h"
#include "worker/session/process_set_table.h"
#include "worker/session/replayer.h"
#include "worker/session/request_table.h"
#include "worker/session/retained_items.h"
#include "worker/session/slot_mirrors.h"
#include "worker/session/window.h"

namespace farandole::worker::session {

// What this worker and the controller believe about each other, from init() to shutdown(): proto/.../worker.proto from
// the worker's side, section 3 of docs/replay.md (W1 to W11) and the fences of its section 2. Pure: no thread, no
// clock.
//
//   JOINING --View--> MEMBER --BeginLeave--> LEAVING --LeaveDone--> LEFT
//      |                |  \--DataPlaneFailed--> BROKEN --Removed, or the wait for it is over--> REMOVED
//      \----Removed-----+----------------------------------------------------------------------> REMOVED
//
// While a member, also one that is leaving, it negotiates, replays or has halted: see Replayer.
class Session {
 public:
  enum class State : uint8_t { kJoining, kMember, kLeaving, kLeft, kBroken, kRemoved };

  struct Identity {
    Incarnation incarnation;
    int64_t pid = 0;
    Rank rank;
    int32_t size = 1;
    // Of a replay's batches that are handed to the executor.
    Window window = {};
    // min_size 0: the job is not elastic.
    Elastic elastic = {};
    // Of its environment, for the whole job.
    std::vector<Variable> variables = {};
  };

  using Effects = farandole::worker::session::Effects;

  explicit Session(Identity identity);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // The link to the controller is there (again): says Hello.
  Effects LinkUp();
  void LinkDown();
  // Says Hello again although nothing broke, to hear which ranks are missing now.
  Effects AskAgain();
  Effects Received(WorkerDown message, TimePoint now);

  // DUPLICATE_NAME, or end() in a state that takes nothing any more. Announced by Flush, or executed at once if it
  // completes a batch of the replay; `effects` must be empty.
  completion::Result Submit(const std::shared_ptr<Operation>& operation, TimePoint now, Effects* effects) {
    return Submit(&operation, 1, now, effects);
  }
  // The same for several at once: all or none.
  completion::Result Submit(const std::shared_ptr<Operation>* operations, size_t count, TimePoint now,
                            Effects* effects);
  bool has_unannounced() const { return !unannounced_.empty(); }
  size_t unannounced() const { return unannounced_.size(); }
  // Announces what is not announced; nothing while there is no session with the controller.
  Effects Flush();

  // The executor has done a work; its names are free again. Call before the operations finish.
  void Completed(const Work& work);
  // After they have finished: the next batch of the replay, or what the controller has to know now because it may be
  // holding something back, see Ack in worker.proto.
  Effects AfterCompleted(TimePoint now);
  // The executor has taken back what Effects::withdraw named: the requests are open again.
  Effects Withdrawn(Work work, TimePoint now);
  // True if an Ack is due some time.
  bool AckDue() const;
  Effects SendAck();

  // When Tick has something to do unless a batch starts before, as the script has left one incomplete for too long
  // (W3b); Infinite: never as things stand.
  TimePoint NextDeadline() const;
  Effects Tick(TimePoint now);
  // A thread of the script waits for this operation. True if NextDeadline may have come nearer by that.
  bool Blocked(const Operation& operation, TimePoint now) { return replayer_.Blocked(operation, now); }

  // A collective has failed: the controller is told, and names the culprit (W11). Requests stay as they are until
  // GiveUp or Removed.
  Effects DataPlaneFailed(const std::string& reason, Rank suspect);
  // Ends BROKEN without an answer of the controller; or any state, with this outcome for everything.
  Effects GiveUp(completion::Result end);

  Effects BeginLeave(TimePoint now);

  // What it knows of a WorkerReport.
  void Fill(WorkerReport* report, TimePoint now) const;

  State state() const { return state_; }
  const Replayer& replayer() const { return replayer_; }
  // The controller has answered a Hello at some time.
  bool answered() const { return controller_incarnation_ != 0; }
  // Items have come that are not executed yet.
  bool executing() const { return in_flight_.completed_through() != received_through_; }
  // Some of that is on a device, which may be behind.
  bool on_device() const { return in_flight_.batches(true) > 0; }
  // Members once joined, otherwise empty.
  const View& view() const { return view_; }
  const Member& self() const { return view_.members[position_]; }
  int position() const { return position_; }
  const ProcessSetTable& process_sets() const { return sets_; }
  // As of the last Welcome.
  const std::vector<Rank>& missing_ranks() const { return missing_ranks_; }
  uint32_t waiting() const { return waiting_; }
  uint32_t needed() const { return needed_; }
  // The last of this generation.
  const MembershipNotice& membership_notice() const { return membership_notice_; }
  // With what everything ends that is submitted after the end. Only in LEFT, BROKEN and REMOVED.
  const completion::Result& end() const { return end_; }

 private:
  bool member() const { return state_ == State::kMember || state_ == State::kLeaving; }
  bool Talks() const { return welcomed_ && member(); }
  void SayHello(Effects* effects);
  void OnWelcome(const Welcome& welcome, Effects* effects);
  void OnView(View view, Effects* effects);
  void OnRemoved(const Removed& removed, Effects* effects);
  void OnItem(Item item, TimePoint now, Effects* effects);
  bool Expected(const Item& item) const;
  void TakeItem(Item item, TimePoint now, Effects* effects);
  void Execute(Item item, Effects* effects);
  void OnHalt(const Halt& halt, Effects* effects);
  void OnRecall(const Recall& recall, Effects* effects);
  // A request has become open, again or for the first time.
  void Opened(const std::shared_ptr<Operation>& operation, TimePoint now);
  // Whatever a step has made possible in the replay.
  void GoOn(TimePoint now, Effects* effects);
  void FlushInto(Effects* effects);
  Leave MakeLeave();
  void Fail(std::string what, Effects* effects);
  void Remove(completion::Result end, Effects* effects);
  Ack MakeAck();
  void Told();

  const Identity identity_;
  State state_ = State::kJoining;
  uint64_t session_ = 0;
  bool linked_ = false;
  bool welcomed_ = false;
  uint64_t controller_incarnation_ = 0;
  std::vector<Rank> missing_ranks_;
  uint32_t waiting_ = 0;
  uint32_t needed_ = 0;
  MembershipNotice membership_notice_;
  View view_;
  int position_ = 0;
  bool knows_all_hosts_ = false;
  ProcessSetTable sets_;

  uint64_t received_through_ = 0;
  uint64_t told_received_ = 0;
  uint64_t told_completed_ = 0;
  int items_untold_ = 0;
  int protocol_errors_ = 0;  // since the last item that was taken
  RequestTable table_;
  ItemReader reader_{&table_};
  SlotMirrors slots_{&table_};
  InFlight in_flight_;
  Replayer replayer_{identity_.window, &table_, &in_flight_, &sets_};
  RetainedItems retained_;
  std::vector<std::shared_ptr<Operation>> unannounced_;
  completion::Result end_;
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_SESSION_H_
