#ifndef FARANDOLE_TRANSPORT_TCP_RECEIVE_QUEUE_H_
#define FARANDOLE_TRANSPORT_TCP_RECEIVE_QUEUE_H_

#include <deque>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/operation.h"
#include "transport/tcp/frame.h"

namespace farandole::transport::tcp {

// The receiving half of a connection: takes the stream of frames apart, straight into the memory of the receive with
// the frame's tag. When there is none yet, reading stops behind the header (`blocked`), and TCP's flow control holds
// the sender back. Not thread-safe.
class ReceiveQueue {
 public:
  // The frame at the head of the stream may be the one that this receive waits for: read again if `blocked` was true.
  void Push(Operation operation);
  bool blocked() const { return blocked_; }

  // Reads until the socket is empty, the stream is blocked, or about `budget` bytes are in. `drain`: go on until the
  // kernel says that there is nothing (the end of the stream was announced). UNAVAILABLE: the peer closed or the
  // connection broke. INVALID_ARGUMENT: a frame differs in length from its receive.
  absl::StatusOr<IoProgress> Read(int fd, size_t budget, bool drain, std::vector<Completion>* completed);

  // Ends what has a smaller tag, and drops frames that do. Read again if `blocked` was true.
  void Discard(Tag below, std::vector<Completion>* completed);
  Tag discard_below() const { return discard_below_; }

  void Fail(const absl::Status& status, std::vector<Completion>* completed);
  TimePoint EarliestDeadline() const;

 private:
  // Finds the receive of the header that has arrived: sets `active_` or `blocked_`.
  absl::Status Match();
  void Begin(Operation operation);
  absl::StatusOr<size_t> ReadSome(int fd, size_t budget, size_t* wanted);

  std::deque<Operation> operations_;
  // The receive whose frame is arriving. Without `data`: nobody wants it.
  Operation current_;
  bool active_ = false;
  size_t received_ = 0;
  FrameHeader header_;
  size_t header_received_ = 0;
  bool blocked_ = false;
  Tag discard_below_;
  // Where bytes go that nobody wants.
  std::vector<char> dropped_;
};

}  // namespace farandole::transport::tcp

#endif  // FARANDOLE_TRANSPORT_TCP_RECEIVE_QUEUE_H_
