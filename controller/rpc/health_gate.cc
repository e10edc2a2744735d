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
  for (Place& place : places_) Free(&place);
}

void HealthGate::Welcome(UniqueFd connection) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) return;
  Place* const place = &*std::min_element(places_.begin(), places_.end(),
                                          [](const Place& a, const Place& b) { return a.since < b.since; });
  Free(place);
  place->client = std::move(connection);
  place->server.Reset(ends[0]);
  place->limit = std::make_unique<FrameLimit>();
  place->since = ++welcomed_;
  loop_->AddFdFromLoop(place->client.get(), 0, [this, place](uint32_t events) { Move(place, events); });
  loop_->AddFdFromLoop(place->server.get(), 0, [this, place](uint32_t events) { Move(place, events); });
  Watch(place);
  hand_over_(UniqueFd(ends[1]));
}

void HealthGate::Refill() {
  refill_ = 0;
  for (Place& place : places_) {
    place.bytes_left = kBytesPerSecond;
    if (place.since > 0) Watch(&place);
  }
}

void HealthGate::Move(Place* place, uint32_t events) {
  if (place->since == 0) return;
  if ((events & (EPOLLERR | EPOLLHUP)) != 0 || !MoveUp(place) || !MoveDown(place)) return Free(place);
  Watch(place);
}

bool HealthGate::MoveUp(Place* place) {
  if (place->up.empty() && place->bytes_left > 0) {
    if (!ReadSome(place->client.get(), place->bytes_left, &place->up)) return false;
    place->bytes_left -= place->up.size();
    if (!place->limit->Allows(place->up)) return false;
    if (place->bytes_left == 0 && refill_ == 0) {
      refill_ = loop_->AddTimerFromLoop(loop_->Now().PlusMs(kRefillMs), [this] { Refill(); });
    }
  }
  return place->up.empty() || SendSome(place->server.get(), &place->up);
}

bool HealthGate::MoveDown(Place* place) {
  if (place->down.empty() && !ReadSome(place->server.get(), kBufferBytes, &place->down)) return false;
  return place->down.empty() || SendSome(place->client.get(), &place->down);
}

void HealthGate::Watch(Place* place) {
  const bool listens = place->up.empty() && place->bytes_left > 0;
  loop_->ModifyFdFromLoop(place->client.get(), (listens ? EPOLLIN : 0) | (place->down.empty() ? 0 : EPOLLOUT));
  loop_->ModifyFdFromLoop(place->server.get(),
                          (place->down.empty() ? EPOLLIN : 0) | (place->up.empty() ? 0 : EPOLLOUT));
}

void HealthGate::Free(Place* place) {
  if (place->since == 0) return;
  for (UniqueFd* fd : {&place->client, &place->server}) {
    loop_->RemoveFdFromLoop(fd->get());
    fd->Reset();
  }
  place->limit = nullptr;
  place->up.clear();
  place->down.clear();
  place->since = 0;
}

}  // namespace farandole::controller::rpc
