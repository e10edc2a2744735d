#include "transport/tcp/receive_queue.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farandole::transport::tcp {
namespace {

constexpr size_t kDroppedBytes = 64 << 10;

}  // namespace

void ReceiveQueue::Push(Operation operation) {
  if (blocked_ && operation.tag == header_.tag()) blocked_ = false;
  operations_.push_back(std::move(operation));
}

absl::StatusOr<IoProgress> ReceiveQueue::Read(int fd, size_t budget, bool drain, std::vector<Completion>* completed) {
  size_t total = 0;
  bool drained = false;
  for (;;) {
    if (!active_ && header_received_ == sizeof header_) {
      absl::Status matched = Match();
      if (!matched.ok()) return matched;
    }
    if (blocked_) return IoProgress::kIdle;
    if (active_ && received_ == current_.bytes) {
      active_ = false;
      if (current_.done) completed->push_back({std::move(current_.done), absl::OkStatus()});
      continue;
    }
    if (drained) return IoProgress::kSocket;
    if (total >= budget) return IoProgress::kBudget;
    size_t wanted = 0;
    absl::StatusOr<size_t> n = ReadSome(fd, budget - total, &wanted);
    if (!n.ok()) return n.status();
    if (*n == 0) return IoProgress::kSocket;
    total += *n;
    const size_t payload = active_ ? std::min(*n, current_.bytes - received_) : 0;
    received_ += payload;
    header_received_ += *n - payload;
    // Fewer bytes than asked for: the socket is empty, asking again would only tell so.
    drained = *n < wanted && !drain;
  }
}

absl::Status ReceiveQueue::Match() {
  blocked_ = false;
  if (header_.tag() < discard_below_) {
    Begin({header_.tag(), nullptr, header_.bytes, TimePoint::Infinite(), nullptr});
    return absl::OkStatus();
  }
  for (auto it = operations_.begin(); it != operations_.end(); ++it) {
    if (it->tag != header_.tag()) continue;
    if (it->bytes != header_.bytes) {
      return absl::InvalidArgumentError(absl::StrCat("the peer sent ", header_.bytes, " bytes with tag ",
                                                     ToString(it->tag), ", the receive expects ", it->bytes));
    }
    Begin(std::move(*it));
    operations_.erase(it);
    return absl::OkStatus();
  }
  blocked_ = true;
  return absl::OkStatus();
}

void ReceiveQueue::Begin(Operation operation) {
  current_ = std::move(operation);
  active_ = true;
  received_ = 0;
  header_received_ = 0;
}

void ReceiveQueue::Discard(Tag below, std::vector<Completion>* completed) {
  if (!(discard_below_ < below)) return;
  discard_below_ = below;
  DiscardBelow(below, &operations_, completed);
  if (active_ && current_.tag < below && current_.done) {
    completed->push_back({std::move(current_.done), Discarded(current_.tag)});
    current_ = {current_.tag, nullptr, current_.bytes, TimePoint::Infinite(), nullptr};
  }
  if (blocked_ && header_.tag() < below) blocked_ = false;
}

// The rest of the payload and, behind it, the next header in one call. 0 bytes: nothing there.
absl::StatusOr<size_t> ReceiveQueue::ReadSome(int fd, size_t budget, size_t* wanted) {
  iovec parts[2];
  int count = 0;
  const size_t rest = active_ ? current_.bytes - received_ : 0;
  size_t most = budget;
  if (rest > 0 && current_.data == nullptr) {
    dropped_.resize(kDroppedBytes);
    most = std::min(budget, kDroppedBytes);
    parts[count++] = {dropped_.data(), std::min(rest, most)};
  } else if (rest > 0) {
    parts[count++] = {current_.data + received_, std::min(rest, budget)};
  }
  if (rest <= most) {
    parts[count++] = {reinterpret_cast<char*>(&header_) + header_received_, sizeof header_ - header_received_};
  }
  for (int i = 0; i < count; ++i) *wanted += parts[i].iov_len;
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = count;
  for (;;) {
    const ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT);
    if (n > 0) return static_cast<size_t>(n);
    if (n == 0) return absl::UnavailableError("the peer closed the connection");
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return size_t{0};
    return absl::UnavailableError(absl::StrCat("receiving failed: ", std::strerror(errno)));
  }
}

void ReceiveQueue::Fail(const absl::Status& status, std::vector<Completion>* completed) {
  if (active_) {
    active_ = false;
    if (current_.done) completed->push_back({std::move(current_.done), status});
  }
  FailAll(&operations_, status, completed);
}

TimePoint ReceiveQueue::EarliestDeadline() const {
  const TimePoint earliest = farandole::transport::EarliestDeadline(operations_);
  return active_ && current_.deadline < earliest ? current_.deadline : earliest;
}

}  // namespace farandole::transport::tcp
