#include "transport/tcp/send_queue.h"

#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"

namespace farandole::transport::tcp {
namespace {

// For frames whose memory was taken back; `data` is null in their operations.
const char kZeros[64 << 10] = {};

}  // namespace

absl::StatusOr<IoProgress> SendQueue::Write(int fd, size_t budget, std::vector<Completion>* completed) {
  size_t written = 0;
  while (!operations_.empty()) {
    if (written >= budget) return IoProgress::kBudget;
    iovec parts[2 * kFramesPerCall];
    msghdr message{};
    message.msg_iov = parts;
    message.msg_iovlen = Gather(budget - written, parts);
    const ssize_t n = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0) {
      if (errno == EINTR) continue;
      if (errno == EAGAIN || errno == EWOULDBLOCK) return IoProgress::kSocket;
      return absl::UnavailableError(absl::StrCat("sending failed: ", std::strerror(errno)));
    }
    Advance(n, completed);
    written += n;
  }
  return IoProgress::kIdle;
}

int SendQueue::Gather(size_t budget, iovec* parts) {
  int count = 0;
  size_t bytes = 0;
  size_t skip = sent_;
  const int frames = std::min<size_t>(operations_.size(), kFramesPerCall);
  for (int i = 0; i < frames && bytes < budget; ++i) {
    const Operation& operation = operations_[i];
    headers_[i] = {operation.tag.high, operation.tag.low, operation.bytes};
    if (skip < sizeof(FrameHeader)) {
      parts[count++] = {reinterpret_cast<char*>(&headers_[i]) + skip, sizeof(FrameHeader) - skip};
      skip = sizeof(FrameHeader);
    }
    const size_t from = skip - sizeof(FrameHeader);
    if (from < operation.bytes) {
      size_t length = std::min(operation.bytes - from, budget);
      const char* data = operation.data + from;
      if (operation.data == nullptr) {
        data = kZeros;
        length = std::min(length, sizeof kZeros);
      }
      parts[count++] = {const_cast<char*>(data), length};
      // None follows a frame that is cut short.
      if (from + length < operation.bytes) break;
      bytes += length;
    }
    skip = 0;
  }
  return count;
}

void SendQueue::Advance(size_t bytes, std::vector<Completion>* completed) {
  sent_ += bytes;
  while (!operations_.empty() && sent_ >= sizeof(FrameHeader) + operations_.front().bytes) {
    sent_ -= sizeof(FrameHeader) + operations_.front().bytes;
    if (operations_.front().done) completed->push_back({std::move(operations_.front().done), absl::OkStatus()});
    operations_.pop_front();
  }
}

void SendQueue::Discard(Tag below, std::vector<Completion>* completed) {
  if (!(discard_below_ < below)) return;
  discard_below_ = below;
  absl::optional<Operation> rest;
  if (!operations_.empty() && sent_ > 0 && operations_.front().tag < below) {
    Operation& front = operations_.front();
    rest = Operation{front.tag, nullptr, front.bytes, TimePoint::Infinite(), nullptr};
    if (!front.done) operations_.pop_front();
  }
  DiscardBelow(below, &operations_, completed);
  if (rest.has_value()) operations_.push_front(*std::move(rest));
}

void SendQueue::Fail(const absl::Status& status, std::vector<Completion>* completed) {
  if (!operations_.empty() && !operations_.front().done) operations_.pop_front();
  FailAll(&operations_, status, completed);
}

}  // namespace farandole::transport::tcp
