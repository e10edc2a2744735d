#include "base/front_door.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/descriptor_limit.h"
#include "base/door_proof.h"
#include "base/tcp_listen.h"

namespace farandole {
namespace {

constexpr char kWelcome[] = "HTTP/1.1 200 Connection Established\r\n\r\n";
// Also to a gRPC client that comes without a proof: an answer in HTTP/2 would let it come again at once, for ever.
constexpr char kRefusal[] =
    "HTTP/1.1 407 Proxy Authentication Required\r\nProxy-Authenticate: Basic realm=\"farandole\"\r\n"
    "Content-Length: 0\r\nConnection: close\r\n\r\n";
const std::string& ElsewhereAnswer() {
  static const auto* const answer = new std::string(
      absl::StrCat("HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nContent-Length: ", sizeof kProofFromElsewhere,
                   "\r\nConnection: close\r\n\r\n", kProofFromElsewhere, "\n"));
  return *answer;
}
// The client knows what its token says, and gRPC tells it the code alone.
constexpr char kExpired[] =
    "HTTP/1.1 410 Gone\r\nContent-Type: text/plain\r\nContent-Length: 22\r\nConnection: close\r\n\r\n"
    "the token has expired\n";
// As gRPC sets it on sockets that it accepts itself: what was sent and not confirmed for so long ends the connection.
constexpr int kUnconfirmedMs = 5000;

// Without the port; "" if there is no peer any more.
std::string PeerAddress(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  char host[NI_MAXHOST];
  if (getpeername(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "";
  if (getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, nullptr, 0, NI_NUMERICHOST) != 0) {
    return "";
  }
  return host;
}

size_t GuestsMax() {
  return static_cast<size_t>(
      std::clamp<uint64_t>(DescriptorLimit() / FrontDoor::kDescriptorsPerGuest, 8, FrontDoor::kGuestsMax));
}

void SetOptions(int fd) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &kUnconfirmedMs, sizeof kUnconfirmedMs);
}

}  // namespace

absl::StatusOr<std::unique_ptr<FrontDoor>> FrontDoor::OpenFromLoop(const std::string& host_and_port, EventLoop* loop,
                                                                   Check check, HandOver hand_over,
                                                                   Listener::OnExhausted on_exhausted,
                                                                   OnDecided on_decided) {
  absl::StatusOr<UniqueFd> socket = ListenTcp(host_and_port);
  if (!socket.ok()) return socket.status();
  const int port = PortOf(socket->get());
  return std::unique_ptr<FrontDoor>(new FrontDoor(*std::move(socket), port, loop, std::move(check),
                                                  std::move(hand_over), std::move(on_exhausted),
                                                  std::move(on_decided)));
}

FrontDoor::FrontDoor(UniqueFd socket, int port, EventLoop* loop, Check check, HandOver hand_over,
                     Listener::OnExhausted on_exhausted, OnDecided on_decided)
    : loop_(loop),
      check_(std::move(check)),
      hand_over_(std::move(hand_over)),
      on_decided_(std::move(on_decided)),
      socket_(std::move(socket)),
      port_(port),
      guests_max_(GuestsMax()),
      listener_(
          loop, [this](UniqueFd connection) { Welcome(std::move(connection)); }, std::move(on_exhausted)) {
  listener_.StartFromLoop(socket_.get());
}

FrontDoor::~FrontDoor() {
  listener_.StopFromLoop();
  while (!guests_.empty()) Take(guests_.begin());
}

void FrontDoor::Welcome(UniqueFd connection) {
  if (guests_.size() >= guests_max_) Take(guests_.begin());
  guests_.push_back({std::move(connection), "", 0});
  const auto guest = std::prev(guests_.end());
  guest->timer = loop_->AddTimerFromLoop(loop_->Now().PlusMs(kGuestMs), [this, guest] { Take(guest); });
  loop_->AddFdFromLoop(guest->fd.get(), EPOLLIN, [this, guest](uint32_t) { Read(guest); });
}

void FrontDoor::Read(GuestIt guest) {
  char buffer[kHeadBytesMax];
  const ssize_t n = recv(guest->fd.get(), buffer, kHeadBytesMax - guest->head.size(), 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) {
    Take(guest);
    return;
  }
  guest->head.append(buffer, n);
  if (absl::StrContains(guest->head, "\r\n\r\n")) return Decide(guest);
  if (guest->head.size() >= kHeadBytesMax) Take(guest);
}

void FrontDoor::Decide(GuestIt guest) {
  const std::string& head = guest->head;
  const std::string credentials = DoorCredentials(head);
  const std::string address = PeerAddress(guest->fd.get());
  // Nobody speaks on before the answer.
  if (!absl::StartsWith(head, "CONNECT ") || !absl::EndsWith(head, "\r\n\r\n")) {
    Tell("", address, "no request of a client of Farandole");
    return Refuse(guest, kRefusal);
  }
  const TokenState token = check_(credentials);
  if (token != TokenState::kGood) {
    const bool expired = token == TokenState::kExpired;
    Tell(credentials, address, expired ? "the token has expired" : kWrongToken);
    return Refuse(guest, expired ? kExpired : kRefusal);
  }
  if (!IsAtHome(DoorProof(credentials), address)) {
    Tell(credentials, address, kProofFromElsewhere);
    return Refuse(guest, ElsewhereAnswer());
  }
  Tell(credentials, address, nullptr);
  UniqueFd connection = Take(guest);
  SetOptions(connection.get());
  // Nothing has been sent yet: there is room.
  constexpr ssize_t kBytes = sizeof kWelcome - 1;
  if (send(connection.get(), kWelcome, kBytes, MSG_NOSIGNAL) == kBytes) hand_over_(std::move(connection));
}

void FrontDoor::Tell(const std::string& credentials, std::string address, const char* refusal) const {
  if (on_decided_ != nullptr) on_decided_({DoorJob(credentials), std::move(address), refusal});
}

bool FrontDoor::IsAtHome(const std::string& proof, const std::string& address) {
  const auto [home, fresh] = homes_.try_emplace(proof, address);
  if (!fresh) return home->second == address;
  proofs_.push_back(proof);
  if (proofs_.size() > kProofsMax) {
    homes_.erase(proofs_.front());
    proofs_.pop_front();
  }
  return true;
}

void FrontDoor::Refuse(GuestIt guest, const std::string& answer) {
  const UniqueFd connection = Take(guest);
  (void)!send(connection.get(), answer.data(), answer.size(), MSG_NOSIGNAL);
  shutdown(connection.get(), SHUT_WR);
}

UniqueFd FrontDoor::Take(GuestIt guest) {
  loop_->CancelTimerFromLoop(guest->timer);
  loop_->RemoveFdFromLoop(guest->fd.get());
  UniqueFd connection = std::move(guest->fd);
  guests_.erase(guest);
  return connection;
}

}  // namespace farandole
