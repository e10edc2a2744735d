#ifndef FARANDOLE_PROTO_CODEC_FRAME_H_
#define FARANDOLE_PROTO_CODEC_FRAME_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"

namespace farandole {

// Bounds on one frame and on what waits for a slow reader.
inline constexpr size_t kFrameBytesMax = 64 << 20;
inline constexpr size_t kUnsentBytesMax = 2 * kFrameBytesMax;

struct Frame {
  std::string bytes;
  UniqueFd fd;  // valid if one came with the frame
};

// One end of a connection of local.proto: length-prefixed frames over a Unix stream socket, a descriptor with those
// that want one. Never blocks; the owner watches fd() for EPOLLIN, and for EPOLLOUT while unsent() is true. Not
// thread-safe. After any error the connection is of no use any more.
class FrameSocket {
 public:
  // `socket` is connected and non-blocking.
  explicit FrameSocket(UniqueFd socket) : socket_(std::move(socket)) {}

  int fd() const { return socket_.get(); }
  bool unsent() const { return !unsent_.empty(); }
  // Bound on the frames that Receive takes from now on; at first and at most kFrameBytesMax.
  void set_received_frame_bytes_max(size_t bytes) { received_frame_bytes_max_ = bytes; }

  // Queues a frame and sends what the kernel takes at once. `fd` travels with it and is closed here after that.
  //   RESOURCE_EXHAUSTED  the frame is too large, or kUnsentBytesMax bytes are waiting: the peer does not read
  //   UNAVAILABLE         the peer is gone
  absl::Status Send(absl::string_view bytes, UniqueFd fd = UniqueFd());
  // Sends more of what is queued. Status as in Send.
  absl::Status Flush();

  // Reads what has come, up to a bound that keeps an event loop fair, and appends complete frames. More may be left:
  // watch level-triggered.
  //   UNAVAILABLE       the peer has closed or is gone; complete frames before that are in `frames`
  //   INVALID_ARGUMENT  not what a peer of ours sends: a length above the bound, a descriptor inside a frame
  absl::Status Receive(std::vector<Frame>* frames);

 private:
  struct Outgoing {
    std::string bytes;  // with the length in front
    size_t sent = 0;
    UniqueFd fd;
  };

  absl::Status SendSome(Outgoing* outgoing, bool* full);
  // Cuts frames out of received_, of which the last `fresh` bytes and `fd` have just come.
  absl::Status Cut(size_t fresh, UniqueFd fd, std::vector<Frame>* frames);

  UniqueFd socket_;
  std::deque<Outgoing> unsent_;
  size_t unsent_bytes_ = 0;
  std::unique_ptr<char[]> reading_;
  std::string received_;  // the beginning of a frame
  UniqueFd received_fd_;  // came with it
  size_t received_frame_bytes_max_ = kFrameBytesMax;
};

}  // namespace farandole

#endif  // FARANDOLE_PROTO_CODEC_FRAME_H_
