#include "controller/rpc/health_gate.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/tcp_listen.h"

namespace farandole::controller::rpc {
namespace {

constexpr size_t kBufferBytes = 4096;
constexpr int64_t kRefillMs = 1000;

// Appends what can be read now, at most up to `bytes_max`; false at the end.
bool ReadSome(int fd, size_t bytes_max, std::string* to) {
  char buffer[kBufferBytes];
  const ssize_t n = recv(fd, buffer, std::min(bytes_max, sizeof buffer), 0);
  if (n > 0) to->append(buffer, n);
  return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

// Takes away what can be sent now; false at the end.
bool SendSome(int fd, std::string* from) {
  const ssize_t n = send(fd, from->data(), from->size(), MSG_NOSIGNAL);
  if (n > 0) from->erase(0, n);
  return n >= 0 || errno == EAGAIN || errno == EINTR;
}

}  // namespace

absl::StatusOr<std::unique_ptr<HealthGate>> HealthGate::Open(const std::string& listen, EventLoop* loop,
                                                             std::function<void(UniqueFd)> hand_over) {
  absl::StatusOr<UniqueFd> socket = ListenTcp(listen);
  if (!socket.ok()) return socket.status();
  const int port = PortOf(socket->get());
  return std::unique_ptr<HealthGate>(new HealthGate(*std::move(socket), port, loop, std::move(hand_over)));
}

HealthGate::HealthGate(UniqueFd socket, int port, EventLoop* loop, std::function<void(UniqueFd)> hand_over)
    : socket_(std::move(socket)),
      port_(port),
      loop_(loop),
      hand_over_(std::move(hand_over)),
      listener_(loop, [this](UniqueFd connection) { Welcome(std::move(connection)); }) {
  listener_.StartFromLoop(socket_.get());
}

HealthGate::~HealthGate() {
  listener_.StopFromLoop();
  loop_->CancelTimerFromLoop(refill_);
  for (Slot& slot : slots_) Free(&slot);
}

void HealthGate::Welcome(UniqueFd connection) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return;
  Slot* const slot =
      &*std::min_element(slots_.begin(), slots_.end(), [](const Slot& a, const Slot& b) { return a.since < b.since; });
  Free(slot);
  slot->client = std::move(connection);
  slot->server.Reset(ends[0]);
  slot->limit = std::make_unique<FrameLimit>();
  slot->since = ++welcomed_;
  loop_->AddFdFromLoop(slot->client.get(), 0, [this, slot](uint32_t events) { Move(slot, events); });
  loop_->AddFdFromLoop(slot->server.get(), 0, [this, slot](uint32_t events) { Move(slot, events); });
  Watch(slot);
  hand_over_(UniqueFd(ends[1]));
}

void HealthGate::Refill() {
  refill_ = 0;
  for (Slot& slot : slots_) {
    slot.bytes_left = kBytesPerSecond;
    if (slot.since > 0) Watch(&slot);
  }
}

void HealthGate::Move(Slot* slot, uint32_t events) {
  if (slot->since == 0) return;
  if ((events & (EPOLLERR | EPOLLHUP)) != 0 || !MoveUp(slot) || !MoveDown(slot)) return Free(slot);
  Watch(slot);
}

bool HealthGate::MoveUp(Slot* slot) {
  if (slot->up.empty() && slot->bytes_left > 0) {
    if (!ReadSome(slot->client.get(), slot->bytes_left, &slot->up)) return false;
    slot->bytes_left -= slot->up.size();
    if (!slot->limit->Allows(slot->up)) return false;
    if (slot->bytes_left == 0 && refill_ == 0) {
      refill_ = loop_->AddTimerFromLoop(loop_->Now().PlusMs(kRefillMs), [this] { Refill(); });
    }
  }
  return slot->up.empty() || SendSome(slot->server.get(), &slot->up);
}

bool HealthGate::MoveDown(Slot* slot) {
  if (slot->down.empty() && !ReadSome(slot->server.get(), kBufferBytes, &slot->down)) return false;
  return slot->down.empty() || SendSome(slot->client.get(), &slot->down);
}

void HealthGate::Watch(Slot* slot) {
  const bool listens = slot->up.empty() && slot->bytes_left > 0;
  const auto events = [](bool in, bool out) { return in * EPOLLIN | out * EPOLLOUT; };
  loop_->ModifyFdFromLoop(slot->client.get(), events(listens, !slot->down.empty()));
  loop_->ModifyFdFromLoop(slot->server.get(), events(slot->down.empty(), !slot->up.empty()));
}

void HealthGate::Free(Slot* slot) {
  if (slot->since == 0) return;
  for (UniqueFd* fd : {&slot->client, &slot->server}) {
    loop_->RemoveFdFromLoop(fd->get());
    fd->Reset();
  }
  slot->limit = nullptr;
  slot->up.clear();
  slot->down.clear();
  slot->since = 0;
}

}  // namespace farandole::controller::rpc
