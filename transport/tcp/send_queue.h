#ifndef FARANDOLE_TRANSPORT_TCP_SEND_QUEUE_H_
#define FARANDOLE_TRANSPORT_TCP_SEND_QUEUE_H_

#include <sys/uio.h>

#include <deque>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/operation.h"
#include "transport/tcp/frame.h"

namespace farandole::transport::tcp {

// The sending half of a connection: operations in the order posted, as a stream of frames. Not thread-safe.
class SendQueue {
 public:
  void Push(Operation operation) { operations_.push_back(std::move(operation)); }
  bool empty() const { return operations_.empty(); }

  // Writes from the posted memory until the queue is empty, the socket is full, or about `budget` bytes are out.
  // Operations that are out completely go to `completed` with OK. UNAVAILABLE: the connection broke.
  absl::StatusOr<IoProgress> Write(int fd, size_t budget, std::vector<Completion>* completed);

  // Ends what has a smaller tag. A frame that is partly out is completed with zeros.
  void Discard(Tag below, std::vector<Completion>* completed);
  Tag discard_below() const { return discard_below_; }

  // Ends everything.
  void Fail(const absl::Status& status, std::vector<Completion>* completed);
  TimePoint EarliestDeadline() const { return farandole::transport::EarliestDeadline(operations_); }

 private:
  // Frames that leave in one system call.
  static constexpr int kFramesPerCall = 8;

  int Gather(size_t budget, iovec* parts);
  void Advance(size_t bytes, std::vector<Completion>* completed);

  std::deque<Operation> operations_;
  // Bytes of the front frame, header included, that are out.
  size_t sent_ = 0;
  Tag discard_below_;
  FrameHeader headers_[kFramesPerCall];
};

}  // namespace farandole::transport::tcp

#endif  // FARANDOLE_TRANSPORT_TCP_SEND_QUEUE_H_
