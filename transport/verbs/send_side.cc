#include "transport/verbs/send_side.h"

#include <algorithm>
#include <utility>

namespace farandole::transport::verbs {

void SendSide::Push(Operation operation, const VerbsMemory* memory) {
  pending_.push_back({std::move(operation), memory});
}

void SendSide::Discard(Tag below, std::vector<Completion>* completed) {
  if (!(discard_below_ < below)) return;
  discard_below_ = below;
  std::deque<Pending> kept;
  for (Pending& pending : pending_) {
    if (pending.operation.tag < below) {
      completed->push_back({std::move(pending.operation.done), Discarded(pending.operation.tag)});
    } else {
      kept.push_back(std::move(pending));
    }
  }
  pending_.swap(kept);
  for (auto& [cookie, written] : written_) written.discarded |= written.operation.tag < below;
}

absl::Status SendSide::PeerIsReady(const MessageHeader& header, const Target& target) {
  if (ready_.size() >= kOfferedMax) {
    return absl::InvalidArgumentError("the peer does not speak this protocol: it offers too many receives");
  }
  ready_.emplace(header.tag(), Readiness{header.id, header.bytes, target});
  return absl::OkStatus();
}

bool SendSide::PeerCancels(uint16_t id) {
  const auto found =
      std::find_if(ready_.begin(), ready_.end(), [id](const auto& ready) { return ready.second.id == id; });
  if (found == ready_.end()) return false;
  ready_.erase(found);
  return true;
}

void SendSide::PeerDiscards(Tag below) { peer_discards_below_ = std::max(peer_discards_below_, below); }

absl::Status SendSide::Pump(Link* link, std::vector<Completion>* completed) {
  while (!pending_.empty()) {
    absl::StatusOr<Step> step = SendFirst(link, completed);
    if (!step.ok()) return step.status();
    if (*step == Step::kWaits) break;
    pending_.pop_front();
  }
  return link->Flush();
}

absl::StatusOr<SendSide::Step> SendSide::SendFirst(Link* link, std::vector<Completion>* completed) {
  Pending& first = pending_.front();
  Operation& operation = first.operation;
  if (operation.tag < peer_discards_below_) {
    completed->push_back({std::move(operation.done), absl::OkStatus()});
    return Step::kSent;
  }
  if (operation.bytes > eager_bytes_) return WriteFirst(link);
  if (!link->RoomForFrame(operation.bytes)) return Step::kWaits;
  const absl::Status sent = link->SendFrame(operation.tag, next_number_++, operation.data, operation.bytes);
  if (!sent.ok()) return sent;
  completed->push_back({std::move(operation.done), absl::OkStatus()});
  return Step::kSent;
}

absl::StatusOr<SendSide::Step> SendSide::WriteFirst(Link* link) {
  Pending& first = pending_.front();
  const auto ready = ready_.find(first.operation.tag);
  // Of another length: the peer, told of this one, fails.
  if (ready == ready_.end() || ready->second.bytes != first.operation.bytes) {
    if (!std::exchange(first.announced, true)) Announce(link);
    return Step::kWaits;
  }
  if (!link->RoomForWrite(first.operation.bytes)) return Step::kWaits;
  Link::WriteOrder order;
  order.data = first.operation.data;
  order.bytes = first.operation.bytes;
  order.memory = first.memory;
  order.target = ready->second.target;
  order.id = ready->second.id;
  order.number = next_number_++;
  order.cookie = next_cookie_++;
  ready_.erase(ready);
  written_.emplace(order.cookie, Written{std::move(first.operation), PartsOf(order.bytes, link->queue_pairs())});
  const absl::Status written = link->Write(order);
  if (written.ok()) return Step::kSent;
  pending_.pop_front();
  return written;
}

void SendSide::Announce(Link* link) {
  const Operation& operation = pending_.front().operation;
  MessageHeader header;
  header.kind = MessageKind::kAnnounce;
  header.number = next_number_;
  header.tag_high = operation.tag.high;
  header.tag_low = operation.tag.low;
  header.bytes = operation.bytes;
  link->SendControl(header);
}

void SendSide::WriteEnded(uint64_t cookie, std::vector<Completion>* completed) {
  const auto found = written_.find(cookie);
  if (found == written_.end() || --found->second.parts > 0) return;
  Written& written = found->second;
  completed->push_back(
      {std::move(written.operation.done), written.discarded ? Discarded(written.operation.tag) : absl::OkStatus()});
  written_.erase(found);
}

void SendSide::Fail(const absl::Status& status, std::vector<Completion>* completed) {
  for (Pending& pending : pending_) completed->push_back({std::move(pending.operation.done), status});
  pending_.clear();
}

void SendSide::FailHeld(const absl::Status& status, std::vector<Completion>* completed) {
  for (auto& [cookie, written] : written_) completed->push_back({std::move(written.operation.done), status});
  written_.clear();
}

TimePoint SendSide::EarliestDeadline() const {
  TimePoint earliest = TimePoint::Infinite();
  for (const Pending& pending : pending_) earliest = std::min(earliest, pending.operation.deadline);
  for (const auto& [cookie, written] : written_) earliest = std::min(earliest, written.operation.deadline);
  return earliest;
}

}  // namespace farandole::transport::verbs
