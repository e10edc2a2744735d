#ifndef FARANDOLE_WORKER_SESSION_H_
#define FARANDOLE_WORKER_SESSION_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proto/messages.h"
#include "worker/request_table.h"
#include "worker/work.h"

namespace farandole {

// What this worker and the controller believe about each other, from init() to shutdown(): proto/.../worker.proto from
// the worker's side, rules W5 and W6 of docs/replay.md and the fences of its section 2. Pure: no thread, no clock.
//
//   JOINING --View--> MEMBER --BeginLeave--> LEAVING --LeaveDone--> LEFT
//      |                |  \--DataPlaneFailed--> BROKEN --Removed, or the wait for it is over--> REMOVED
//      \----Removed-----+----------------------------------------------------------------------> REMOVED
class Session {
 public:
  enum class State : uint8_t { kJoining, kMember, kLeaving, kLeft, kBroken, kRemoved };

  struct Identity {
    Incarnation incarnation;
    int64_t pid = 0;
    Rank rank;
    int32_t size = 1;
  };

  // What a step asks for, to be done in this order before the next step.
  struct Effects {
    std::vector<WorkerUp> send;
    std::vector<Work> work;                           // for the executor
    std::vector<std::shared_ptr<Operation>> endings;  // open requests that end with end()
    bool joined = false;                              // view() is there now
    bool removed = false;                             // abort the data plane; what it has ends with end() too
  };

  explicit Session(Identity identity);

  // The link to the controller is there (again): says Hello.
  Effects LinkUp();
  void LinkDown();
  // Says Hello again although nothing broke, to hear which ranks are missing now.
  Effects AskAgain();
  Effects Received(WorkerDown message);

  // DUPLICATE_NAME, or end() in a state that takes nothing any more. Announced by Flush.
  Result Submit(std::shared_ptr<Operation> operation);
  bool has_unannounced() const { return !unannounced_.empty(); }
  size_t unannounced() const { return unannounced_.size(); }
  // Announces what is not announced; nothing while there is no session with the controller.
  Effects Flush();

  // The executor has done an item; its names are free again. Call before the operations finish.
  void Completed(const Work& work);
  // What the controller has to know now because it may be holding something back, see Ack in worker.proto.
  Effects AfterCompleted();
  // True if an Ack is due some time.
  bool AckDue() const;
  Effects SendAck();

  // W11. Requests stay as they are until GiveUp or Removed.
  Effects DataPlaneFailed(const std::string& reason, Rank suspect);
  // Ends BROKEN without an answer of the controller; or any state, with this outcome for everything.
  Effects GiveUp(Result end);

  Effects BeginLeave();

  State state() const { return state_; }
  // The controller has answered a Hello at some time.
  bool answered() const { return controller_incarnation_ != 0; }
  // Items have come that are not executed yet.
  bool executing() const { return completed_through_ != received_through_; }
  // Members once joined, otherwise empty.
  const View& view() const { return view_; }
  const Member& self() const { return view_.members[position_]; }
  int position() const { return position_; }
  const std::vector<Rank>& missing_ranks() const { return missing_ranks_; }
  // With what everything ends that has no answer; OK while a member.
  const Result& end() const { return end_; }

 private:
  void SayHello(Effects* effects);
  void OnWelcome(const Welcome& welcome, Effects* effects);
  void OnView(View view, Effects* effects);
  void OnRemoved(const Removed& removed, Effects* effects);
  void OnItem(Item item, Effects* effects);
  // False: it names a request that is not open.
  bool Assign(Item item, Work* work);
  bool Take(uint32_t process_set, const std::string& name, Work* work);
  void Remove(Result end, Effects* effects);
  Ack MakeAck();
  void Told();

  const Identity identity_;
  State state_ = State::kJoining;
  uint64_t session_ = 0;
  bool linked_ = false;
  bool welcomed_ = false;
  uint64_t controller_incarnation_ = 0;
  std::vector<Rank> missing_ranks_;
  View view_;
  int position_ = 0;
  uint64_t received_through_ = 0;
  uint64_t completed_through_ = 0;
  uint64_t told_received_ = 0;
  uint64_t told_completed_ = 0;
  int items_untold_ = 0;
  RequestTable table_;
  std::vector<std::shared_ptr<Operation>> unannounced_;
  Result end_;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_SESSION_H_
