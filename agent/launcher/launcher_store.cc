#include "agent/launcher/launcher_store.h"

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "agent/launcher/packet_socket.h"

namespace farandole::agent::launcher {
namespace {

// The launcher hands over at once; a machine under heavy load gets this long for each packet.
constexpr int kHandOverMs = 20000;
// Leaves room for any key.
constexpr size_t kValueBytesMax = kPacketBytesMax / 2;

}  // namespace

LauncherStore::LauncherStore(EventLoop* loop, UniqueFd socket) : loop_(loop), socket_(std::move(socket)) {}

LauncherStore::~LauncherStore() {
  if (watched_ != 0) loop_->RemoveFdFromLoop(socket_.get());
}

absl::StatusOr<std::vector<KeptEntry>> LauncherStore::TakeAll() {
  std::vector<KeptEntry> entries;
  while (exists()) {
    absl::StatusOr<Packet> packet = ReceivePacket(socket_.get(), kHandOverMs);
    if (!packet.ok()) return packet.status();
    if (packet->bytes == "end") break;
    const std::vector<std::string> parts = absl::StrSplit(packet->bytes, absl::MaxSplits('\n', 2));
    if (parts.size() != 3 || parts[0] != "put")
      return absl::InternalError("the launcher sent a message that this agent does not know");
    entries.push_back(KeptEntry{parts[2], parts[1], std::move(packet->fds)});
  }
  return entries;
}

void LauncherStore::PutFromLoop(const std::string& key, absl::string_view value, int fd) {
  std::string line(value.substr(0, kValueBytesMax));
  std::replace(line.begin(), line.end(), '\n', ' ');
  Send(absl::StrCat("put\n", line, "\n", key), fd);
}

void LauncherStore::DropFromLoop(const std::string& prefix) { Send(absl::StrCat("drop\n\n", prefix), -1); }

void LauncherStore::ReadyFromLoop() { Send("ready", -1); }

void LauncherStore::Send(std::string bytes, int fd) {
  if (!exists()) return;
  const bool sent = waiting_.empty() && SendPacket(socket_.get(), bytes.data(), bytes.size(), &fd, fd < 0 ? 0 : 1);
  // A launcher that is gone needs nothing any more: the lifeline tells.
  if (sent || (waiting_.empty() && errno != EAGAIN) || waiting_.size() >= kWaitingMax) return;
  waiting_.push_back({std::move(bytes), UniqueFd(fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 0))});
  Watch();
}

void LauncherStore::SendWaiting() {
  while (!waiting_.empty()) {
    const Waiting& next = waiting_.front();
    const int fd = next.fd.get();
    if (!SendPacket(socket_.get(), next.bytes.data(), next.bytes.size(), &fd, fd < 0 ? 0 : 1) && errno == EAGAIN)
      return;
    waiting_.pop_front();
  }
  Watch();
}

void LauncherStore::ListenFromLoop(std::function<void(pid_t)> on_retire) {
  if (!exists()) return;
  on_retire_ = std::move(on_retire);
  Watch();
}

void LauncherStore::Receive() {
  const absl::StatusOr<Packet> packet = ReceivePacket(socket_.get(), 0);
  if (absl::IsUnavailable(packet.status())) {
    // The lifeline tells what that means.
    on_retire_ = nullptr;
    Watch();
    return;
  }
  absl::string_view text = packet.ok() ? absl::string_view(packet->bytes) : "";
  pid_t pid;
  if (absl::ConsumePrefix(&text, "retire\n") && absl::SimpleAtoi(text, &pid) && pid > 0) on_retire_(pid);
}

void LauncherStore::Watch() {
  const uint32_t wanted = (on_retire_ == nullptr ? 0u : EPOLLIN) | (waiting_.empty() ? 0u : EPOLLOUT);
  const uint32_t before = watched_;
  watched_ = wanted;
  if (before == 0 && wanted != 0) {
    loop_->AddFdFromLoop(socket_.get(), wanted, [this](uint32_t events) {
      if ((events & EPOLLOUT) != 0) SendWaiting();
      if ((events & ~EPOLLOUT) != 0 && on_retire_ != nullptr) Receive();
    });
  } else if (before != 0 && wanted == 0) {
    loop_->RemoveFdFromLoop(socket_.get());
  } else if (before != wanted) {
    loop_->ModifyFdFromLoop(socket_.get(), wanted);
  }
}

}  // namespace farandole::agent::launcher
