#ifndef FARANDOLE_TRANSPORT_TCP_MESSAGE_STREAM_H_
#define FARANDOLE_TRANSPORT_TCP_MESSAGE_STREAM_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace farandole::transport::tcp {

// The messages of a handshake on a fresh socket, each behind its length in two bytes, little endian. Reads not one byte
// beyond the message, since frames may follow. The socket is the caller's.
class MessageStream {
 public:
  explicit MessageStream(int fd) : fd_(fd) {}

  // UNAVAILABLE: the socket is broken, or does not even take so little.
  absl::Status Write(absl::string_view message);
  // Nothing when the message is not complete yet. UNAVAILABLE: closed or broken. INVALID_ARGUMENT: its length is not
  // one of a handshake.
  absl::StatusOr<absl::optional<std::string>> Read();

 private:
  // Reads until `have` bytes are in `buffer_`; false if they are not there yet.
  absl::StatusOr<bool> Fill(size_t bytes);

  const int fd_;
  std::string buffer_;
};

}  // namespace farandole::transport::tcp

#endif  // FARANDOLE_TRANSPORT_TCP_MESSAGE_STREAM_H_
