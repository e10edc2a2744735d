#ifndef FARANDOLE_TESTS_FUZZ_PLAYED_CHANNEL_H_
#define FARANDOLE_TESTS_FUZZ_PLAYED_CHANNEL_H_

#include <arpa/inet.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/notification.h"
#include "base/event_loop.h"
#include "base/private_fd.h"
#include "base/unique_fd.h"
#include "tests/fuzz/played_device.h"
#include "tests/fuzz/played_port.h"
#include "tests/fuzz/record.h"
#include "transport/verbs/connection.h"
#include "transport/verbs/link.h"
#include "transport/verbs/memory.h"
#include "transport/verbs/message.h"

namespace farandole::fuzz {

inline constexpr size_t kEagerBytes = 256;
inline constexpr size_t kSizes[] = {0, 1, 172, 173, kEagerBytes, kEagerBytes + 1, 4096, 600 << 10};
inline constexpr uint64_t kTagHigh = 1;
// Turns in which a channel that was let go is over.
inline constexpr int kTurnsMax = 50;

// A channel over RDMA of which the other end, its device and the network are the play: see verbs_messages_fuzz.cc. The
// peer writes into memory while it may, whatever it says. At the end this end lets go, and all has to be over, each
// operation once; otherwise the process ends.
class PlayedChannel {
 public:
  explicit PlayedChannel(int pairs) : ports_(PlayedPorts()) {
    transport::verbs::VerbsOptions options;
    options.eager_bytes = kEagerBytes;
    options.queue_pairs = pairs;
    auto link = transport::verbs::Link::Make(ports_, options, 1);
    if (!link.ok() || !(*link)->Connect((*link)->endpoints()).ok()) std::abort();
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
    peer_ = UniqueFd(ends[0]);
    transport::verbs::Connection::Shape shape;
    shape.loop = &loop_;
    shape.peer = "peer";
    shape.socket = PrivateFd(ends[1]);
    shape.link = *std::move(link);
    shape.eager_bytes = kEagerBytes;
    shape.recall_ms = 5000;
    connection_ = std::make_shared<transport::verbs::Connection>(std::move(shape));
    loop_.RunHere([this] { connection_->StartFromLoop(); });
  }

  ~PlayedChannel() {
    const auto over = std::make_shared<absl::Notification>();
    connection_->LetGo(over);
    for (int turn = 0; !over->HasBeenNotified(); ++turn) {
      if (turn == kTurnsMax) std::abort();
      for (size_t pair = 0; pair < PlayedPairs().size(); ++pair) CompleteAll(pair);
      Turn();
    }
    connection_.reset();
    for (const auto& operation : operations_) {
      if (operation->calls != 1) std::abort();
    }
    if (!PlayedPairs().empty()) std::abort();
  }

  void Do(const Record& record) {
    const absl::string_view bytes = record.bytes;
    switch (record.what % 8) {
      case 0:
        MessageComes(bytes);
        break;
      case 1:
        HonestMessageComes(bytes);
        break;
      case 2:
        WriteComes(At(bytes, 0), At(bytes, 1), At(bytes, 2));
        break;
      case 3:
        for (size_t i = 0; i < bytes.size(); ++i) CompleteSend(At(bytes, 0));
        break;
      case 4:
      case 5:
        Post(record.what % 8 == 4, {kTagHigh, At(bytes, 0)}, kSizes[At(bytes, 1) % std::size(kSizes)]);
        break;
      case 6:
        connection_->Discard({kTagHigh, At(bytes, 0)});
        break;
      default:
        Misbehave(At(bytes, 0), bytes.substr(std::min<size_t>(1, bytes.size())));
    }
    Turn();
  }

  void MessageComes(absl::string_view bytes) {
    if (!Live(0) || PlayedPairs()[0]->receives.empty()) return;
    const PlayedPair::Receive& slot = PlayedPairs()[0]->receives.front();
    bytes = bytes.substr(0, slot.bytes);
    if (!bytes.empty()) std::memcpy(slot.data, bytes.data(), bytes.size());
    // It has said that it does not write there any more.
    transport::verbs::MessageHeader header;
    if (bytes.size() >= sizeof header) {
      std::memcpy(&header, bytes.data(), sizeof header);
      if (header.kind == transport::verbs::MessageKind::kCancelled) offers_.erase(header.id);
    }
    ReceiveEnds(0, IBV_WC_SUCCESS, IBV_WC_RECV, static_cast<uint32_t>(bytes.size()), 0);
  }

  // Of the last operation that has ended.
  const absl::Status& last() const { return last_; }

 private:
  struct Operation {
    std::vector<char> bytes;
    std::unique_ptr<transport::verbs::VerbsMemory> memory;
    int calls = 0;
  };
  // Memory that the peer may write to.
  struct Offer {
    char* data;
    size_t bytes;
    int parts = 0;
  };

  static uint8_t At(absl::string_view bytes, size_t i) { return i < bytes.size() ? static_cast<uint8_t>(bytes[i]) : 0; }

  void Turn() {
    for (int turns = 3; turns > 0; --turns) {
      HearMessages();
      int left = 1;
      loop_.Drive([&left] { return left-- == 0; }, 1000000);
    }
  }

  void Post(bool sends, transport::Tag tag, size_t bytes) {
    operations_.push_back(std::make_unique<Operation>());
    Operation* const operation = operations_.back().get();
    operation->bytes.assign(bytes, 's');
    auto memory = transport::verbs::VerbsMemory::Register(ports_.all(), operation->bytes.data(), bytes);
    if (!memory.ok()) std::abort();
    operation->memory = *std::move(memory);
    const transport::Block block{operation->memory.get(), 0, bytes};
    const auto done = [this, operation](const absl::Status& status) {
      ++operation->calls;
      last_ = status;
      if (Writable(operation->bytes.data())) std::abort();
      operation->memory.reset();
      operation->bytes = {};
    };
    const TimePoint deadline = loop_.Now().PlusMs(60000);
    sends ? connection_->Send(tag, block, deadline, done) : connection_->Receive(tag, block, deadline, done);
  }

  bool Live(size_t pair) const { return pair < PlayedPairs().size() && !PlayedPairs()[pair]->broken(); }
  bool Writable(const char* data) const {
    for (const auto& [id, offer] : offers_) {
      if (data == offer.data && Live(0)) return true;
    }
    return false;
  }

  void Complete(const ibv_wc& completion) {
    loop_.RunHere([&] {
      connection_->HandleFromLoop(completion);
      connection_->AfterCompletionsFromLoop();
    });
  }

  // What the other end sends, the peer learns.
  void HearMessages() {
    if (PlayedPairs().empty()) return;
    for (PlayedPair::Send& send : PlayedPairs()[0]->sends) {
      if (send.copy.size() < sizeof(transport::verbs::MessageHeader)) continue;
      transport::verbs::MessageHeader header;
      std::memcpy(&header, send.copy.data(), sizeof header);
      if (header.kind == transport::verbs::MessageKind::kFrame) {
        ++frames_;
      } else if (header.kind != transport::verbs::MessageKind::kCredit) {
        ++controls_;
      }
      if (header.kind == transport::verbs::MessageKind::kReady) {
        transport::verbs::Target target;
        std::memcpy(&target, send.copy.data() + sizeof header, sizeof target);
        offers_[header.id] = {reinterpret_cast<char*>(target.address), header.bytes};
      }
      send.copy.clear();
    }
  }

  void CompleteSend(size_t which) {
    if (PlayedPairs().empty()) return;
    HearMessages();
    PlayedPair* const pair = PlayedPairs()[which % PlayedPairs().size()];
    if (pair->sends.empty()) return;
    const PlayedPair::Send send = std::move(pair->sends.front());
    pair->sends.pop_front();
    if (!pair->broken() && send.bytes > 0) {
      // The device reads it now.
      volatile char last = send.data[send.bytes - 1];
      (void)last;
    }
    if (send.opcode == IBV_WR_RDMA_WRITE_WITH_IMM && !pair->broken()) ++writes_;
    if (!send.signaled && !pair->broken()) return;
    ibv_wc completion{};
    completion.wr_id = send.id;
    completion.status = pair->broken() ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS;
    Complete(completion);
  }

  // Sends, and receives if they are flushed.
  void CompleteAll(size_t which) {
    while (which < PlayedPairs().size() && !PlayedPairs()[which]->sends.empty()) CompleteSend(which);
    while (which < PlayedPairs().size() && PlayedPairs()[which]->broken() && !PlayedPairs()[which]->receives.empty()) {
      ReceiveEnds(which, IBV_WC_WR_FLUSH_ERR, IBV_WC_RECV, 0, 0);
    }
  }

  void ReceiveEnds(size_t which, ibv_wc_status status, ibv_wc_opcode opcode, uint32_t bytes, uint32_t mark) {
    PlayedPair* const pair = PlayedPairs()[which];
    ibv_wc completion{};
    completion.wr_id = pair->receives.front().id;
    completion.status = status;
    completion.opcode = opcode;
    completion.byte_len = bytes;
    completion.imm_data = htonl(mark);
    pair->receives.pop_front();
    Complete(completion);
  }

  void HonestMessageComes(absl::string_view bytes) {
    HearMessages();
    transport::verbs::MessageHeader header;
    header.kind = static_cast<transport::verbs::MessageKind>(At(bytes, 0));
    header.id = At(bytes, 1);
    header.number = At(bytes, 2);
    header.tag_high = kTagHigh;
    header.tag_low = At(bytes, 3);
    header.frames = frames_;
    header.controls = controls_;
    header.writes = writes_;
    std::string rest(bytes.substr(std::min<size_t>(6, bytes.size())));
    header.bytes = kSizes[At(bytes, 4) % std::size(kSizes)] + At(bytes, 5);
    if (header.kind == transport::verbs::MessageKind::kFrame) {
      rest.resize(std::min<size_t>(header.bytes, kEagerBytes), 'f');
      header.bytes = rest.size();
    } else if (header.kind == transport::verbs::MessageKind::kReady && rest.empty()) {
      rest.resize(sizeof(transport::verbs::Target), '\x11');
    }
    MessageComes(std::string(reinterpret_cast<const char*>(&header), sizeof header) + rest);
  }

  void WriteComes(size_t which, uint16_t id, uint32_t number) {
    HearMessages();
    const size_t large = PlayedPairs().size() > 1 ? PlayedPairs().size() - 1 : 1;
    which = 1 + which % large;
    if (!Live(which) || PlayedPairs()[which]->receives.empty()) return;
    const auto offer = offers_.find(id);
    if (offer != offers_.end()) {
      offer->second.data[0] = offer->second.data[offer->second.bytes - 1] = 'w';
      if (++offer->second.parts == transport::verbs::PartsOf(offer->second.bytes, static_cast<int>(large)))
        offers_.erase(offer);
    }
    ReceiveEnds(which, IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM, 0, transport::verbs::WriteMark(id, number));
  }

  void Misbehave(uint8_t how, absl::string_view rest) {
    if (how % 4 == 2) {
      (void)!send(peer_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    } else if (how % 4 == 3) {
      connection_->Close(absl::AbortedError("enough"));
    } else if (how % 4 == 0) {
      const size_t which = PlayedPairs().empty() ? 0 : At(rest, 0) % PlayedPairs().size();
      if (Live(which) && !PlayedPairs()[which]->receives.empty()) {
        ReceiveEnds(which, IBV_WC_LOC_LEN_ERR, IBV_WC_RECV, 0, 0);
      }
    } else if (Live(0) && !PlayedPairs()[0]->receives.empty()) {
      ReceiveEnds(0, IBV_WC_SUCCESS, IBV_WC_RECV_RDMA_WITH_IMM, At(rest, 0) << 24 | At(rest, 1), 0);
    }
  }

  const transport::verbs::Ports ports_;
  EventLoop loop_{"fuzz"};
  UniqueFd peer_;
  std::shared_ptr<transport::verbs::Connection> connection_;
  std::vector<std::unique_ptr<Operation>> operations_;
  absl::Status last_;
  std::map<uint16_t, Offer> offers_;
  // What the connection has sent.
  uint32_t frames_ = 0, controls_ = 0, writes_ = 0;
};

}  // namespace farandole::fuzz

#endif  // FARANDOLE_TESTS_FUZZ_PLAYED_CHANNEL_H_
