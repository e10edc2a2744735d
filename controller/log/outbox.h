#ifndef FARANDOLE_CONTROLLER_LOG_OUTBOX_H_
#define FARANDOLE_CONTROLLER_LOG_OUTBOX_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <utility>
#include <variant>

#include "absl/types/optional.h"
#include "controller/log/answered.h"
#include "controller/log/item_log.h"
#include "controller/members/roster.h"
#include "controller/types/actions.h"
#include "controller/types/rank_set.h"
#include "proto/messages.h"

namespace farandole::controller::log {

// Everything that becomes an item of the log passes here: bodies that wait for their index, then items, kept until all
// concerned have received them and sent again to those who ask (rules C7, C8, C11 of docs/replay.md). Pure.
class Outbox {
 public:
  // `roster` outlives this.
  Outbox(ItemLog log, members::Roster* roster) : log_(std::move(log)), roster_(roster) {}

  const ItemLog& log() const { return log_; }
  // False when no further item may be sent, as too many are not received by all concerned yet (rule C11).
  bool MakeRoom() { return log_.MakeRoom(); }

  // The body gets its index now, and answers it. `to` = nullptr: all members.
  uint64_t Send(uint32_t phase, ItemBody body, const RankSet* to, Actions* actions);

  // Waits for its index. Errors, barriers and the like; bounded by the open requests, as each answers at least one,
  // and those that QueuedFor() counts are open.
  void Queue(ItemBody body, absl::optional<RankSet> to) {
    if (std::holds_alternative<Withdraw>(body)) ++withdraws_queued_;
    queue_.push_back({std::move(body), std::move(to)});
  }
  template <typename F>  // void (const ItemBody& body, const RankSet* to), as of Held
  void ForEachQueued(F&& visit) const {
    for (const Waiting& waiting : queue_) visit(waiting.body, waiting.to ? &*waiting.to : nullptr);
  }
  bool queue_empty() const { return queue_.empty(); }
  // How many requests of this member the queue answers.
  size_t QueuedFor(Rank rank) const;
  void ClearQueue() {
    queue_.clear();
    withdraws_queued_ = 0;
  }
  // Sends the queue in its order, past what is held back from its addressees, as far as the log takes it. Answers how
  // many that answer requests.
  using Held = std::function<bool(const ItemBody& body, const RankSet* to)>;
  int SendQueue(uint32_t phase, const Held& held, Actions* actions);
  // False if there is no such item.
  bool Received(Rank rank, uint64_t through) { return log_.Received(rank, through); }
  // Withdraws that wait for their index.
  bool withdraws_wait() const { return withdraws_queued_ > 0; }
  // As of the log, and nothing of that kind waits for its index.
  bool ReplayEndKnown() { return !withdraws_wait() && log_.ReplayEndKnown(); }
  void Part(Rank rank) { log_.Part(rank); }
  void Release(Rank rank) { log_.Release(rank); }
  // Sends again what concerns this member above `received_through`; `answered` is told of that and of what waits for
  // its index. False, sending nothing: some of it is not kept any more.
  bool Resend(Rank rank, uint64_t received_through, Answered* answered, Actions* actions);

  // After each step: says what is stable, and once who holds back `more` items.
  void Finish(bool more, Actions* actions);

 private:
  struct Waiting {
    ItemBody body;
    absl::optional<RankSet> to;  // none = all
  };

  ItemLog log_;
  members::Roster* const roster_;
  std::deque<Waiting> queue_;
  int withdraws_queued_ = 0;
  bool full_said_ = false;
};

}  // namespace farandole::controller::log

#endif  // FARANDOLE_CONTROLLER_LOG_OUTBOX_H_
