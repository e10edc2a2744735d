#include "transport/verbs/receive_side.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::transport::verbs {
namespace {

// Sends that can be under way between two ends, small and large.
constexpr uint32_t kNumbersMax = kFrameWindow + kWriteWindow;

absl::Status Nonsense(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("the peer does not speak this protocol: ", what));
}

}  // namespace

absl::Status ReceiveSide::Mismatch(Tag tag, uint64_t sent, uint64_t expected) const {
  return absl::InvalidArgumentError(
      absl::StrCat("the peer sent ", sent, " bytes with tag ", ToString(tag), ", the receive expects ", expected));
}

absl::Status ReceiveSide::CheckAnnounced(const Operation& operation) const {
  if (!announced_.has_value() || announced_->tag != operation.tag || announced_->bytes == operation.bytes) {
    return absl::OkStatus();
  }
  return Mismatch(operation.tag, announced_->bytes, operation.bytes);
}

absl::Status ReceiveSide::Push(Operation operation, const VerbsMemory* memory, Link* link) {
  const absl::Status checked = CheckAnnounced(operation);
  if (operation.bytes <= eager_bytes_ || !checked.ok()) {
    small_.push_back(std::move(operation));
    return checked;
  }
  return Offer(std::move(operation), memory, link);
}

absl::Status ReceiveSide::Offer(Operation operation, const VerbsMemory* memory, Link* link) {
  if (offered_.size() >= kOfferedMax) {
    small_.push_back(std::move(operation));
    return absl::ResourceExhaustedError(absl::StrCat(kOfferedMax, " large receives are posted on one channel already"));
  }
  while (offered_.count(next_id_) > 0) ++next_id_;
  const uint16_t id = next_id_++;
  MessageHeader header;
  header.kind = MessageKind::kReady;
  header.id = id;
  header.tag_high = operation.tag.high;
  header.tag_low = operation.tag.low;
  header.bytes = operation.bytes;
  Target target;
  target.address = reinterpret_cast<uint64_t>(operation.data);
  for (int device = 0; device < kDevicesMax; ++device) target.keys[device] = memory->remote_key(device);
  offered_[id].operation = std::move(operation);
  link->SendControl(header, &target);
  return absl::OkStatus();
}

TimePoint ReceiveSide::Discard(Tag below, TimePoint now, Link* link, std::vector<Completion>* completed) {
  if (!(discard_below_ < below)) return TimePoint::Infinite();
  discard_below_ = below;
  DiscardBelow(below, &small_, completed);
  TimePoint recall = TimePoint::Infinite();
  for (auto it = offered_.begin(); it != offered_.end();) {
    const auto offered = it++;
    if (!(offered->second.operation.tag < below) || offered->second.recall.has_value()) continue;
    if (offered->second.written) {
      for (auto& [number, arrived] : arrived_) {
        if (arrived.kind == Arrived::Kind::kWrite && arrived.id == offered->first) arrived.kind = Arrived::Kind::kVoid;
      }
      End(offered, Discarded(offered->second.operation.tag), completed);
      continue;
    }
    recall = now.PlusMs(recall_ms_);
    offered->second.recall = recall;
    MessageHeader header;
    header.kind = MessageKind::kCancel;
    header.id = offered->first;
    link->SendControl(header);
  }
  MessageHeader header;
  header.kind = MessageKind::kDiscard;
  header.tag_high = below.high;
  header.tag_low = below.low;
  link->SendControl(header);
  return recall;
}

absl::Status ReceiveSide::Arrive(uint64_t number, const Arrived& arrived) {
  if (number - next_ >= kNumbersMax || !arrived_.emplace(number, arrived).second) {
    return Nonsense("a send out of its order");
  }
  if (announced_.has_value() && announced_->number == number) announced_.reset();
  return absl::OkStatus();
}

absl::Status ReceiveSide::FrameCame(const MessageHeader& header, const char* payload, uint16_t slot) {
  Arrived arrived;
  arrived.kind = Arrived::Kind::kFrame;
  arrived.header = header;
  arrived.payload = payload;
  arrived.slot = slot;
  return Arrive(next_ + (header.number - static_cast<uint32_t>(next_)), arrived);
}

absl::Status ReceiveSide::WriteCame(uint32_t mark, int queue_pairs, std::vector<Completion>* completed) {
  const auto found = offered_.find(IdOfMark(mark));
  if (found == offered_.end() || found->second.written) return Nonsense("bytes that nobody waits for");
  Offered& offered = found->second;
  if (++offered.parts < PartsOf(offered.operation.bytes, queue_pairs)) return absl::OkStatus();
  offered.written = true;
  Arrived arrived;
  arrived.kind = offered.recall.has_value() ? Arrived::Kind::kVoid : Arrived::Kind::kWrite;
  arrived.id = found->first;
  arrived.parts = offered.parts;
  const uint16_t ahead = static_cast<uint16_t>(NumberOfMark(mark) - static_cast<uint16_t>(next_));
  const absl::Status arrives = Arrive(next_ + ahead, arrived);
  if (offered.recall.has_value()) End(found, Discarded(offered.operation.tag), completed);
  return arrives;
}

absl::Status ReceiveSide::Announced(const MessageHeader& header) {
  const uint64_t number = next_ + (header.number - static_cast<uint32_t>(next_));
  // What follows, on another queue pair, may have overtaken this.
  if (number - next_ >= kNumbersMax || arrived_.count(number) > 0 || header.tag() < discard_below_) {
    return absl::OkStatus();
  }
  announced_ = Announcement{header.tag(), header.bytes, number};
  for (const Operation& operation : small_) {
    const absl::Status checked = CheckAnnounced(operation);
    if (!checked.ok()) return checked;
  }
  for (const auto& [id, offered] : offered_) {
    const absl::Status checked = offered.recall.has_value() ? absl::OkStatus() : CheckAnnounced(offered.operation);
    if (!checked.ok()) return checked;
  }
  return absl::OkStatus();
}

absl::Status ReceiveSide::CancelAnswered(uint16_t id, std::vector<Completion>* completed) {
  const auto found = offered_.find(id);
  if (found == offered_.end() || !found->second.recall.has_value()) {
    return Nonsense("an answer to what was not asked");
  }
  End(found, Discarded(found->second.operation.tag), completed);
  return absl::OkStatus();
}

void ReceiveSide::End(std::map<uint16_t, Offered>::iterator offered, absl::Status status,
                      std::vector<Completion>* completed) {
  completed->push_back({std::move(offered->second.operation.done), std::move(status)});
  offered_.erase(offered);
}

absl::Status ReceiveSide::Deliver(Link* link, std::vector<Completion>* completed) {
  for (;;) {
    const auto first = arrived_.find(next_);
    if (first == arrived_.end()) return absl::OkStatus();
    if (first->second.kind == Arrived::Kind::kFrame) {
      const absl::StatusOr<Step> step = DeliverFrame(first->second, link, completed);
      if (!step.ok()) return step.status();
      if (*step == Step::kBlocked) return absl::OkStatus();
    } else if (first->second.kind == Arrived::Kind::kWrite) {
      End(offered_.find(first->second.id), absl::OkStatus(), completed);
    }
    link->ReturnWrite(first->second.parts);
    arrived_.erase(first);
    ++next_;
  }
}

absl::StatusOr<ReceiveSide::Step> ReceiveSide::DeliverFrame(const Arrived& frame, Link* link,
                                                            std::vector<Completion>* completed) {
  const Tag tag = frame.header.tag();
  if (!(tag < discard_below_)) {
    const auto found =
        std::find_if(small_.begin(), small_.end(), [tag](const Operation& operation) { return operation.tag == tag; });
    if (found == small_.end()) {
      for (const auto& [id, offered] : offered_) {
        if (offered.operation.tag == tag) return Mismatch(tag, frame.header.bytes, offered.operation.bytes);
      }
      return Step::kBlocked;
    }
    if (found->bytes != frame.header.bytes) return Mismatch(tag, frame.header.bytes, found->bytes);
    if (found->bytes > 0) std::memcpy(found->data, frame.payload, found->bytes);
    completed->push_back({std::move(found->done), absl::OkStatus()});
    small_.erase(found);
  }
  const absl::Status returned = link->ReturnFrame(frame.slot);
  if (!returned.ok()) return returned;
  return Step::kDelivered;
}

void ReceiveSide::Fail(const absl::Status& status, std::vector<Completion>* completed) {
  FailAll(&small_, status, completed);
}

void ReceiveSide::FailHeld(const absl::Status& status, std::vector<Completion>* completed) {
  for (auto& [id, offered] : offered_) {
    completed->push_back(
        {std::move(offered.operation.done), offered.recall.has_value() ? Discarded(offered.operation.tag) : status});
  }
  offered_.clear();
}

TimePoint ReceiveSide::EarliestDeadline() const {
  TimePoint earliest = farandole::transport::EarliestDeadline(small_);
  for (const auto& [id, offered] : offered_) {
    if (!offered.recall.has_value()) earliest = std::min(earliest, offered.operation.deadline);
  }
  return earliest;
}

TimePoint ReceiveSide::EarliestRecall() const {
  TimePoint earliest = TimePoint::Infinite();
  for (const auto& [id, offered] : offered_) earliest = std::min(earliest, offered.recall.value_or(earliest));
  return earliest;
}

}  // namespace farandole::transport::verbs
