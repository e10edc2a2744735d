#include "proto/codec/frame.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole {
namespace {

constexpr size_t kLengthBytes = 4;
constexpr size_t kReadBytes = 64 << 10;
constexpr int kReadsMax = 16;
// The kernel passes at most one descriptor for each that we sent; room for more shows a peer that breaks the rule.
constexpr int kDescriptorsMax = 4;

void AppendLength(size_t length, std::string* out) {
  for (size_t i = 0; i < kLengthBytes; ++i) out->push_back(static_cast<char>(length >> (8 * i)));
}

size_t LengthAt(const char* bytes) {
  size_t length = 0;
  for (size_t i = 0; i < kLengthBytes; ++i) length |= size_t{static_cast<uint8_t>(bytes[i])} << (8 * i);
  return length;
}

absl::Status Gone(int error) {
  return absl::UnavailableError(absl::StrCat("the connection broke: ", std::strerror(error)));
}

// Takes all descriptors out of a message, so that none stays open by mistake.
std::vector<UniqueFd> Descriptors(msghdr* message) {
  std::vector<UniqueFd> fds;
  for (cmsghdr* header = CMSG_FIRSTHDR(message); header != nullptr; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      fds.emplace_back(fd);
    }
  }
  return fds;
}

}  // namespace

absl::Status FrameSocket::Send(absl::string_view bytes, UniqueFd fd) {
  if (bytes.size() > kFrameBytesMax) {
    return absl::ResourceExhaustedError(absl::StrCat("a message of ", bytes.size(), " bytes is too large"));
  }
  if (unsent_bytes_ + bytes.size() > kUnsentBytesMax) {
    return absl::ResourceExhaustedError(absl::StrCat("the peer has left ", unsent_bytes_, " bytes unread"));
  }
  Outgoing outgoing;
  outgoing.bytes.reserve(kLengthBytes + bytes.size());
  AppendLength(bytes.size(), &outgoing.bytes);
  outgoing.bytes.append(bytes.data(), bytes.size());
  outgoing.fd = std::move(fd);
  unsent_bytes_ += outgoing.bytes.size();
  unsent_.push_back(std::move(outgoing));
  return Flush();
}

absl::Status FrameSocket::Flush() {
  bool full = false;
  while (!unsent_.empty() && !full) {
    absl::Status status = SendSome(&unsent_.front(), &full);
    if (!status.ok()) return status;
    if (unsent_.front().sent == unsent_.front().bytes.size()) unsent_.pop_front();
  }
  return absl::OkStatus();
}

absl::Status FrameSocket::SendSome(Outgoing* outgoing, bool* full) {
  iovec part{&outgoing->bytes[outgoing->sent], outgoing->bytes.size() - outgoing->sent};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (outgoing->fd.valid()) {
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    const int fd = outgoing->fd.get();
    std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  }
  const ssize_t n = sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0) {
    if (errno == EINTR) return absl::OkStatus();
    *full = errno == EAGAIN || errno == EWOULDBLOCK;
    return *full ? absl::OkStatus() : Gone(errno);
  }
  outgoing->fd.Reset();
  outgoing->sent += n;
  unsent_bytes_ -= n;
  return absl::OkStatus();
}

absl::Status FrameSocket::Receive(std::vector<Frame>* frames) {
  for (int i = 0; i < kReadsMax; ++i) {
    if (reading_ == nullptr) reading_.reset(new char[kReadBytes]);  // not value-initialised
    iovec part{reading_.get(), kReadBytes};
    alignas(cmsghdr) char control[CMSG_SPACE(kDescriptorsMax * sizeof(int))];
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    const ssize_t n = recvmsg(fd(), &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
    const int error = errno;
    if (n < 0 && error == EINTR) continue;
    if (n < 0 && (error == EAGAIN || error == EWOULDBLOCK)) return absl::OkStatus();
    if (n < 0) return Gone(error);
    std::vector<UniqueFd> fds = Descriptors(&message);
    if (n == 0) return absl::UnavailableError("the peer closed the connection");
    if (fds.size() > 1 || (message.msg_flags & MSG_CTRUNC) != 0) {
      return absl::InvalidArgumentError("more than one descriptor with a frame");
    }
    received_.append(reading_.get(), n);
    absl::Status status = Cut(n, fds.empty() ? UniqueFd() : std::move(fds[0]), frames);
    // Less than there was room for: most likely all there is, and the owner's epoll knows better.
    if (!status.ok() || static_cast<size_t>(n) < kReadBytes) return status;
  }
  return absl::OkStatus();
}

// A read never reaches beyond the piece that carries a descriptor, and such a piece begins with its frame: the
// descriptor belongs to the last frame that begins among the fresh bytes.
absl::Status FrameSocket::Cut(size_t fresh, UniqueFd fd, std::vector<Frame>* frames) {
  const size_t fresh_from = received_.size() - fresh;
  const size_t frames_before = frames->size();
  size_t begin = 0, last_begin = 0;
  while (received_.size() - begin >= kLengthBytes) {
    const size_t length = LengthAt(&received_[begin]);
    if (length > received_frame_bytes_max_) {
      return absl::InvalidArgumentError(absl::StrCat("a frame of ", length, " bytes is announced, at most ",
                                                     received_frame_bytes_max_, " are taken"));
    }
    if (received_.size() - begin - kLengthBytes < length) break;
    Frame frame;
    frame.bytes = received_.substr(begin + kLengthBytes, length);
    frame.fd = std::move(received_fd_);
    frames->push_back(std::move(frame));
    last_begin = begin;
    begin += kLengthBytes + length;
  }
  if (begin < received_.size()) last_begin = begin;
  if (fd.valid()) {
    if (last_begin < fresh_from) return absl::InvalidArgumentError("a descriptor inside a frame");
    const bool complete = begin == received_.size() && frames->size() > frames_before;
    (complete ? frames->back().fd : received_fd_) = std::move(fd);
  }
  received_.erase(0, begin);
  return absl::OkStatus();
}

}  // namespace farandole
