#include "transport/tcp/message_stream.h"

#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "transport/handshake.h"

namespace farandole::transport::tcp {
namespace {

constexpr size_t kLengthBytes = 2;

}  // namespace

absl::Status MessageStream::Write(absl::string_view message) {
  const char length[kLengthBytes] = {static_cast<char>(message.size() & 0xff), static_cast<char>(message.size() >> 8)};
  const std::string bytes = absl::StrCat(absl::string_view(length, kLengthBytes), message);
  const ssize_t n = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n == static_cast<ssize_t>(bytes.size())) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("sending failed: ", n < 0 ? std::strerror(errno) : "the other side does not read"));
}

absl::StatusOr<absl::optional<std::string>> MessageStream::Read() {
  const absl::optional<std::string> nothing;
  absl::StatusOr<bool> full = Fill(kLengthBytes);
  if (!full.ok()) return full.status();
  if (!*full) return nothing;
  const size_t length = static_cast<unsigned char>(buffer_[0]) | static_cast<unsigned char>(buffer_[1]) << 8;
  if (length == 0 || length > kHandshakeMessageBytesMax) {
    return absl::InvalidArgumentError("it does not speak this handshake");
  }
  full = Fill(kLengthBytes + length);
  if (!full.ok()) return full.status();
  if (!*full) return nothing;
  std::string message = buffer_.substr(kLengthBytes);
  buffer_.clear();
  return absl::optional<std::string>(std::move(message));
}

absl::StatusOr<bool> MessageStream::Fill(size_t bytes) {
  while (buffer_.size() < bytes) {
    char chunk[kHandshakeMessageBytesMax];
    const ssize_t n = recv(fd_, chunk, bytes - buffer_.size(), MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return false;
    if (n < 0) return absl::UnavailableError(absl::StrCat("receiving failed: ", std::strerror(errno)));
    if (n == 0) return absl::UnavailableError("the other side closed the connection");
    buffer_.append(chunk, n);
  }
  return true;
}

}  // namespace farandole::transport::tcp
