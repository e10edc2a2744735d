#include "transport/verbs/link.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::transport::verbs {
namespace {

constexpr int kReceiveSlots = kFrameWindow + kControlWindow + kCreditsMax;
// Some more than can be under way, since completions come for several at a time.
constexpr int kSendSlots = kReceiveSlots + 16;
constexpr int kMessageSends = 64;
constexpr int kWriteSends = 64;
// What small messages need; a device may give more or less.
constexpr uint32_t kInlineBytes = 220;
// More than a peer that keeps the rules leaves waiting: all receives offered, recalled and answered, and some more.
constexpr size_t kControlsMax = 4 * kOfferedMax;
// Larger sends are written in pieces, so that others get their turn.
constexpr size_t kPieceBytes = 4 << 20;
// A cookie of the queue pair for messages that is no slot.
constexpr uint64_t kSettled = 1 << 20;

size_t PieceBytes(const Ports& ports) {
  size_t bytes = kPieceBytes;
  for (const PortChoice& port : ports.choices) {
    // A device that tells none has one nevertheless, which is larger.
    if (port.message_bytes_max > 0) bytes = std::min<size_t>(bytes, port.message_bytes_max);
  }
  return bytes;
}

absl::Status Nonsense(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("the peer does not speak this protocol: ", what));
}

}  // namespace

std::vector<const Device*> Ports::all() const {
  std::vector<const Device*> all;
  for (const std::unique_ptr<Device>& device : devices) all.push_back(device.get());
  return all;
}

absl::StatusOr<std::unique_ptr<Link>> Link::Make(const Ports& ports, const VerbsOptions& options, uint32_t owner) {
  std::unique_ptr<Link> link(new Link(ports, options));
  absl::Status made = link->MakePairs(ports, options, owner);
  if (made.ok()) made = link->MakeBuffers(ports);
  if (!made.ok()) return made;
  return link;
}

Link::Link(const Ports& ports, const VerbsOptions& options)
    : piece_bytes_(PieceBytes(ports)),
      slot_bytes_(sizeof(MessageHeader) + std::max(options.eager_bytes, sizeof(Target))) {}

absl::Status Link::MakePairs(const Ports& ports, const VerbsOptions& options, uint32_t owner) {
  const int large =
      std::min(std::max({options.queue_pairs, static_cast<int>(ports.choices.size()), 1}), kQueuePairsMax);
  for (int i = 0; i <= large; ++i) {
    const size_t port = i == 0 ? 0 : (i - 1) % ports.choices.size();
    QueuePair::Shape shape;
    shape.device_place = ports.device_of[port];
    shape.device = ports.devices[shape.device_place].get();
    shape.port = ports.choices[port];
    shape.sends = i == 0 ? kMessageSends : kWriteSends;
    shape.receives = i == 0 ? kReceiveSlots : static_cast<int>(kWriteWindow);
    shape.inline_bytes = i == 0 ? kInlineBytes : 0;
    shape.pkey_index = options.pkey_index;
    shape.service_level = options.service_level;
    shape.traffic_class = options.traffic_class;
    shape.timeout = options.timeout;
    absl::StatusOr<std::unique_ptr<QueuePair>> pair = QueuePair::Make(shape, owner, static_cast<uint8_t>(i));
    if (!pair.ok()) return pair.status();
    pairs_.push_back(*std::move(pair));
  }
  return absl::OkStatus();
}

absl::Status Link::MakeBuffers(const Ports& ports) {
  buffer_.resize((kReceiveSlots + kSendSlots) * slot_bytes_);
  const Device* const device = ports.devices[ports.device_of[0]].get();
  absl::StatusOr<std::unique_ptr<VerbsMemory>> memory = VerbsMemory::Register({device}, buffer_.data(), buffer_.size());
  if (!memory.ok()) return memory.status();
  memory_ = *std::move(memory);
  for (int i = 0; i < kSendSlots; ++i) free_slots_.push_back(static_cast<uint16_t>(kReceiveSlots + i));
  return absl::OkStatus();
}

std::vector<Endpoint> Link::endpoints() const {
  std::vector<Endpoint> endpoints;
  for (const auto& pair : pairs_) endpoints.push_back(pair->local());
  return endpoints;
}

absl::Status Link::Connect(const std::vector<Endpoint>& remote) {
  pairs_.resize(std::min(pairs_.size(), remote.size()));
  for (size_t i = 0; i < pairs_.size(); ++i) {
    const absl::Status connected = pairs_[i]->Connect(remote[i]);
    if (!connected.ok()) return connected;
  }
  return PostBuffers();
}

// Before the peer is told that this end is ready.
absl::Status Link::PostBuffers() {
  absl::Status posted;
  for (uint16_t i = 0; posted.ok() && i < kReceiveSlots; ++i) posted = PostSlot(i);
  for (size_t pair = 1; pair < pairs_.size(); ++pair) {
    for (uint32_t i = 0; posted.ok() && i < kWriteWindow; ++i) posted = pairs_[pair]->PostReceive(0, nullptr, 0, 0);
  }
  return posted;
}

absl::Status Link::PostSlot(uint16_t slot) {
  return pairs_[0]->PostReceive(slot, &buffer_[slot * slot_bytes_], static_cast<uint32_t>(slot_bytes_),
                                memory_->local_key(0));
}

size_t Link::inline_bytes() const { return std::min(pairs_[0]->inline_bytes(), kInlineBytes); }

bool Link::RoomToSend(size_t bytes) const {
  return !free_slots_.empty() || sizeof(MessageHeader) + bytes <= inline_bytes();
}

bool Link::RoomForFrame(size_t bytes) const { return frame_credit_.Open() && RoomToSend(bytes); }

absl::Status Link::SendMessage(MessageHeader header, const void* payload, size_t bytes) {
  header.frames = frame_debt_.Tell();
  header.controls = control_debt_.Tell();
  header.writes = write_debt_.Tell();
  const size_t total = sizeof header + bytes;
  Work work;
  work.bytes = static_cast<uint32_t>(total);
  char inlined[kInlineBytes];
  char* place = inlined;
  if (total <= inline_bytes()) {
    work.inlined = true;
  } else {
    const uint16_t slot = free_slots_.back();
    free_slots_.pop_back();
    place = &buffer_[slot * slot_bytes_];
    work.local_key = memory_->local_key(0);
    work.cookie = slot;
  }
  std::memcpy(place, &header, sizeof header);
  if (bytes > 0) std::memcpy(place + sizeof header, payload, bytes);
  work.data = place;
  ++sent_;
  return pairs_[0]->Post(work);
}

absl::Status Link::SendFrame(Tag tag, uint32_t number, const char* data, size_t bytes) {
  frame_credit_.Spend();
  MessageHeader header;
  header.kind = MessageKind::kFrame;
  header.number = number;
  header.tag_high = tag.high;
  header.tag_low = tag.low;
  header.bytes = bytes;
  return SendMessage(header, data, bytes);
}

absl::Status Link::ReturnFrame(uint16_t slot) {
  frame_debt_.Take();
  return PostSlot(slot);
}

void Link::ReturnWrite(int parts) {
  for (int i = 0; i < parts; ++i) write_debt_.Take();
}

void Link::SendControl(const MessageHeader& header, const Target* target) {
  controls_.push_back({header, target != nullptr, target != nullptr ? *target : Target()});
}

absl::Status Link::SendAnswer(const MessageHeader& header) {
  if (controls_.size() >= kControlsMax) return Nonsense("it asks for answers and takes none");
  SendControl(header);
  return absl::OkStatus();
}

absl::Status Link::Flush() {
  while (!controls_.empty() && control_credit_.Open() && RoomToSend(sizeof(Target))) {
    const Control control = controls_.front();
    controls_.pop_front();
    control_credit_.Spend();
    const absl::Status sent =
        SendMessage(control.header, &control.target, control.has_target ? sizeof control.target : 0);
    if (!sent.ok()) return sent;
  }
  const bool due = frame_debt_.Due() || control_debt_.Due() || write_debt_.Due();
  // It is told, all in one, when the device has room again.
  if (!due || !RoomToSend(0) || pairs_[0]->backlog()) return absl::OkStatus();
  return SendMessage(MessageHeader(), nullptr, 0);
}

bool Link::RoomForWrite(size_t bytes) const { return write_credit_.Open(PartsOf(bytes, queue_pairs())); }

absl::Status Link::Write(const WriteOrder& order) {
  const int parts = PartsOf(order.bytes, queue_pairs());
  write_credit_.Spend(parts);
  for (int part = 0; part < parts; ++part) {
    const absl::Status written = WritePart(order, part, parts);
    if (!written.ok()) return written;
  }
  return absl::OkStatus();
}

absl::Status Link::WritePart(const WriteOrder& order, int part, int parts) {
  // Beginning with another queue pair each time.
  QueuePair& pair = *pairs_[1 + (order.number + part) % queue_pairs()];
  size_t from = order.bytes / parts * part;
  const size_t end = part + 1 == parts ? order.bytes : from + order.bytes / parts;
  while (from < end) {
    const size_t bytes = std::min(end - from, piece_bytes_);
    const bool last = from + bytes == end;
    Work work;
    work.opcode = last ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE;
    work.data = order.data + from;
    work.bytes = static_cast<uint32_t>(bytes);
    work.local_key = order.memory->local_key(pair.local().device);
    work.remote_address = order.target.address + from;
    work.remote_key = order.target.keys[pair.remote().device];
    work.mark = WriteMark(order.id, order.number);
    work.signaled = last;
    work.cookie = last ? order.cookie : 0;
    const absl::Status posted = pair.Post(work);
    if (!posted.ok()) return posted;
    from += bytes;
  }
  return absl::OkStatus();
}

absl::Status Link::Handle(const ibv_wc& completion, LinkEvents* events) {
  const WorkId id = WorkId::Unpack(completion.wr_id);
  if (id.queue_pair >= pairs_.size()) return absl::OkStatus();
  QueuePair& pair = *pairs_[id.queue_pair];
  if (id.kind == WorkId::Kind::kLastSend || id.kind == WorkId::Kind::kLastReceive) {
    pair.Drained();
    return absl::OkStatus();
  }
  if (broken_) return absl::OkStatus();
  if (completion.status != IBV_WC_SUCCESS) {
    return absl::UnavailableError(absl::StrCat(id.kind == WorkId::Kind::kSend ? "sending" : "receiving",
                                               " over RDMA failed: ", memory_->api().wc_status_str(completion.status),
                                               " (vendor's code ", completion.vendor_err, ")"));
  }
  if (id.kind == WorkId::Kind::kSend) return HandleSent(id, events);
  if (id.queue_pair == 0 && completion.opcode != IBV_WC_RECV) return Nonsense("bytes are written where messages come");
  if (id.queue_pair == 0) return HandleMessage(id.index, completion.byte_len, events);
  if (completion.opcode != IBV_WC_RECV_RDMA_WITH_IMM) return Nonsense("a message where bytes are written");
  ++writes_came_;
  const absl::Status posted = pair.PostReceive(0, nullptr, 0, 0);
  if (!posted.ok()) return posted;
  return events->WriteCame(ntohl(completion.imm_data));
}

absl::Status Link::HandleSent(const WorkId& id, LinkEvents* events) {
  std::vector<uint64_t> cookies;
  const absl::Status posted = pairs_[id.queue_pair]->Completed(&cookies);
  for (uint64_t cookie : cookies) {
    if (id.queue_pair > 0) {
      ++writes_ended_;
      events->WriteEnded(cookie);
    } else if (cookie == kSettled) {
      ++settled_;
    } else {
      free_slots_.push_back(static_cast<uint16_t>(cookie));
    }
  }
  return posted;
}

bool Link::TakeCounts(const MessageHeader& header) {
  return frame_credit_.Taken(header.frames) && control_credit_.Taken(header.controls) &&
         write_credit_.Taken(header.writes);
}

absl::Status Link::HandleMessage(uint16_t slot, uint32_t bytes, LinkEvents* events) {
  ++received_;
  const char* const place = &buffer_[slot * slot_bytes_];
  MessageHeader header;
  if (bytes < sizeof header) return Nonsense("a message without a header");
  std::memcpy(&header, place, sizeof header);
  const size_t payload = bytes - sizeof header;
  if (!TakeCounts(header)) return Nonsense("it has taken more than was sent");
  if (header.kind == MessageKind::kFrame) {
    if (header.bytes != payload) return Nonsense("a frame of another length");
    return events->MessageCame(header, place + sizeof header, slot);
  }
  if (header.kind == MessageKind::kCredit) return PostSlot(slot);
  if (header.kind == MessageKind::kReady && payload != sizeof(Target)) return Nonsense("a receive without a target");
  control_debt_.Take();
  absl::Status handled = events->MessageCame(header, place + sizeof header, slot);
  if (handled.ok()) handled = PostSlot(slot);
  return handled;
}

absl::Status Link::Settle() {
  // Nothing is written, so no key is needed; its completion comes after all before it.
  Work work;
  work.opcode = IBV_WR_RDMA_WRITE;
  work.signaled = true;
  work.cookie = kSettled;
  ++settles_;
  return pairs_[0]->Post(work);
}

void Link::Break() {
  if (std::exchange(broken_, true)) return;
  for (const auto& pair : pairs_) pair->Break();
}

bool Link::drained() const {
  return std::all_of(pairs_.begin(), pairs_.end(), [](const auto& pair) { return pair->drained(); });
}

}  // namespace farandole::transport::verbs
