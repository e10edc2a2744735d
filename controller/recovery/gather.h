#ifndef FARANDOLE_CONTROLLER_RECOVERY_GATHER_H_
#define FARANDOLE_CONTROLLER_RECOVERY_GATHER_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/optional.h"
#include "base/clock.h"
#include "controller/members/key_store.h"
#include "controller/types/actions.h"
#include "controller/types/rank_set.h"
#include "proto/messages.h"

namespace farandole::controller::recovery {

// What one member of a generation says to a controller that did not open it.
struct Registered {
  bool present = false;
  Hello hello;  // what it said since is folded in
  std::string agent_id;
  bool session_open = false;
  absl::optional<Failed> failed;
  // It left by shutdown() before.
  bool left = false;
  // Why it is known to be dead; "" = it is not.
  std::string dead;
};

// What a Gather has found.
struct Recovered {
  View view;
  std::vector<ProcessSet> process_sets;  // as of `sets_through`; all but 0
  uint64_t sets_through = 0;
  std::vector<Registered> members;  // by rank
  std::map<uint64_t, Item> items;   // by index: the union of what the members retain
  std::string fault;                // why they cannot go on; "" = they can
};

// The state GATHER of rule C9: an incarnation of the controller that hears a Hello of a generation it does not know
// acts on nothing until every member of it has said Hello, left, or is known to be dead, and until it has the items
// that they retain. Pure.
//
//   view asked for --Recalled--> members awaited --the last one--> items asked for --all there--> complete
//
// Whoever is asked may be stopped: others that have the same are asked as well when no answer comes.
class Gather {
 public:
  // Workers that say Hello or end before anybody has told the view; as many again as a generation can have.
  static constexpr size_t kWorkersMax = 2 * RankSet::kRanksMax;

  Gather(GenerationId generation, uint64_t incarnation, TimePoint now, int64_t wait_ms)
      : generation_(generation),
        incarnation_(incarnation),
        since_(now),
        deadline_(now.PlusMs(wait_ms)),
        ask_again_ms_(std::max<int64_t>(1, wait_ms / 10)),
        ask_again_at_(now.PlusMs(ask_again_ms_)) {}

  const GenerationId& generation() const { return generation_; }
  // Keys that members put meanwhile.
  members::KeyStore& keys() { return keys_; }

  // True once the view is known and has this worker.
  bool HasMember(Incarnation worker) const { return ranks_.contains(worker); }
  // A worker of this agent has said Hello and is not known to be dead.
  bool HasAgent(const std::string& agent_id) const;
  bool has_view() const { return view_.has_value(); }

  // A worker of this generation; or one that the view has, but that never saw the view.
  void OnHello(const std::string& agent_id, const Hello& hello, Actions* actions);
  // Anything else that workers say.
  void OnSaid(const std::string& agent_id, const FromWorker& said, Actions* actions);
  void OnEnded(Incarnation worker, const std::string& cause, bool left, Actions* actions);
  void OnAgentLost(const std::string& agent_id, const std::string& text, Actions* actions);
  void CloseSessions(const std::string& agent_id, Actions* actions);
  // At the deadline who has not come is taken for dead.
  void Tick(TimePoint now, Actions* actions);
  TimePoint deadline() const { return std::min(deadline_, ask_again_at_); }
  TimePoint since() const { return since_; }

  bool complete() const { return complete_; }
  // It cannot become complete: nobody has told the view in time.
  bool hopeless() const { return hopeless_; }
  // Once complete; the rest is of no use then.
  Recovered Take();

  // For status: by rank, once the view is known, whom it waits for; and all who have said Hello.
  const View* view() const { return view_ ? &*view_ : nullptr; }
  const RankSet& awaited() const { return awaited_; }
  const absl::flat_hash_map<Incarnation, Registered>& workers() const { return workers_; }

 private:
  void Fold(Registered* worker, const WorkerUp& message, const SameFrom& progress);
  void OnRecalled(Incarnation worker, const Recalled& recalled);
  void TakeView(const View& view);
  void Settle(Incarnation worker);
  bool HasRoomFor(Incarnation worker) const {
    return workers_.contains(worker) || ranks_.contains(worker) || workers_.size() < kWorkersMax;
  }
  void Unask(Incarnation worker);
  // Does what can be done now.
  void Step(Actions* actions);
  void AskOthers(Actions* actions);
  // As many as are wanted of those that have not been asked.
  void AskForView(size_t count, Actions* actions);
  void AskForItems(Actions* actions);
  bool AnyDead() const;

  const GenerationId generation_;
  const uint64_t incarnation_;
  const TimePoint since_;
  TimePoint deadline_;
  const int64_t ask_again_ms_;
  TimePoint ask_again_at_;
  absl::flat_hash_map<Incarnation, Registered> workers_;
  absl::optional<View> view_;
  std::vector<ProcessSet> process_sets_;
  uint64_t sets_through_ = 0;
  absl::flat_hash_map<Incarnation, Rank> ranks_;  // of the view
  RankSet awaited_;
  std::set<Incarnation> asked_for_view_;  // and have not answered
  std::map<uint64_t, Item> items_;
  // Items on their way, by index, and from whom; 0: whose session closed is waited for.
  std::map<uint64_t, Incarnation> asked_for_;
  // Who was asked for an item and has not answered in time.
  std::map<uint64_t, std::vector<Incarnation>> slow_with_;
  // Who was asked for an item and did not have it.
  std::map<uint64_t, std::vector<Incarnation>> lacked_by_;
  bool looked_ = false;  // asked_for_ has all that can be asked for
  bool complete_ = false;
  bool hopeless_ = false;
  std::string fault_;
  members::KeyStore keys_;
};

}  // namespace farandole::controller::recovery

#endif  // FARANDOLE_CONTROLLER_RECOVERY_GATHER_H_
