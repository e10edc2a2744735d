#include "controller/log/outbox.h"

#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace farandole::controller::log {

uint64_t Outbox::Send(uint32_t phase, ItemBody body, const RankSet* to, Actions* actions) {
  const Item& item = log_.Append(phase, std::move(body), to);
  if (to == nullptr) {
    roster_->ToAll(item, actions);
  } else {
    roster_->ToSome(*to, item, actions);
  }
  return item.index;
}

size_t Outbox::QueuedFor(Rank rank) const {
  size_t count = 0;
  for (const Waiting& waiting : queue_) {
    if (waiting.to && !waiting.to->Contains(rank)) continue;
    const ErrorItem* error = std::get_if<ErrorItem>(&waiting.body);
    count += error == nullptr ? 1 : error->names.size();
  }
  return count;
}

int Outbox::SendQueue(uint32_t phase, const Held& held, Actions* actions) {
  int answers = 0;
  int withdraws_sent = 0;
  for (auto it = queue_.begin(); it != queue_.end() && log_.MakeRoom();) {
    const RankSet* to = it->to ? &*it->to : nullptr;
    if (held(it->body, to)) {
      ++it;
      continue;
    }
    ++(std::holds_alternative<Withdraw>(it->body) ? withdraws_sent : answers);
    Send(phase, std::move(it->body), to, actions);
    it = queue_.erase(it);
  }
  withdraws_queued_ -= withdraws_sent;
  return answers;
}

bool Outbox::Resend(Rank rank, uint64_t received_through, Answered* answered, Actions* actions) {
  const bool kept = log_.ForEachAbove(rank, received_through, [&](const Item& item) {
    answered->Add(item.body, item.index);
    roster_->ToOne(rank, item, actions);
  });
  for (const Waiting& waiting : queue_) {
    if (!waiting.to || waiting.to->Contains(rank)) answered->Add(waiting.body, 0);
  }
  return kept;
}

void Outbox::Finish(bool more, Actions* actions) {
  if (const auto stable = log_.TakeStable()) roster_->ToAll(Stable{log_.generation(), *stable}, actions);
  const bool held = (more || !queue_.empty()) && !log_.MakeRoom();
  if (held && !full_said_) {
    actions->Because(absl::StrCat(log_.last() - log_.stable(), " items are not received by all; ",
                                  Describe(roster_->seat(log_.laggard()).member), " is at item ",
                                  log_.received_through(log_.laggard())));
  }
  full_said_ = held;
}

}  // namespace farandole::controller::log
