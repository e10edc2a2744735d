#include "agent/output/output_sink.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::agent::output {
namespace {

// What a terminal or pipe takes without blocking once it says that it is writable.
constexpr size_t kPieceBytes = 256;

}  // namespace

OutputSink::OutputSink(EventLoop* loop, int fd, std::function<void(const std::string&)> complain)
    : loop_(loop), shared_fd_(fd), kind_(Kind::kShared), complain_(std::move(complain)) {
  struct stat info;
  if (fstat(fd, &info) != 0) {
    broken_ = true;
  } else if (S_ISREG(info.st_mode)) {
    kind_ = Kind::kFile;
  } else if (S_ISSOCK(info.st_mode)) {
    kind_ = Kind::kSocket;
  } else {
    own_fd_.Reset(open(absl::StrCat("/proc/self/fd/", fd).c_str(), O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    if (own_fd_.valid()) kind_ = Kind::kOwn;
  }
}

OutputSink::~OutputSink() { Watch(false); }

void OutputSink::WriteFromLoop(absl::string_view bytes) {
  if (broken_) return;
  held_.append(bytes.data(), bytes.size());
  if (!watched_) Write();
}

int64_t OutputSink::WriteSome(const char* bytes, size_t count) {
  switch (kind_) {
    case Kind::kOwn:
      return write(own_fd_.get(), bytes, count);
    case Kind::kSocket:
      return send(shared_fd_, bytes, count, MSG_DONTWAIT | MSG_NOSIGNAL);
    case Kind::kFile:
      return write(shared_fd_, bytes, count);
    case Kind::kShared:
      break;
  }
  pollfd ready{shared_fd_, POLLOUT, 0};
  if (poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0) {
    return write(shared_fd_, bytes, std::min(count, kPieceBytes));
  }
  errno = EAGAIN;
  return -1;
}

void OutputSink::Write() {
  size_t written = 0;
  while (written < held_.size()) {
    const int64_t n = WriteSome(held_.data() + written, held_.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (n < 0) {
      Drop(errno);
      written = held_.size();
      break;
    }
    written += n;
  }
  held_.erase(0, written);
  Watch(!held_.empty());
  if (Full()) return;
  std::vector<std::function<void()>> waiting;
  waiting.swap(waiting_);
  for (std::function<void()>& fn : waiting) fn();
}

void OutputSink::Drop(int error) {
  // A disk may have room again; a reader does not come back.
  broken_ = error != ENOSPC;
  if (complain_ == nullptr) return;
  std::exchange(complain_, nullptr)(std::strerror(error));
}

void OutputSink::Watch(bool on) {
  if (on == watched_) return;
  watched_ = on;
  const int fd = own_fd_.valid() ? own_fd_.get() : shared_fd_;
  if (on) {
    loop_->AddFdFromLoop(fd, EPOLLOUT, [this](uint32_t) { Write(); });
  } else {
    loop_->RemoveFdFromLoop(fd);
  }
}

void OutputSink::FinishFromLoop(int64_t timeout_ms) {
  const TimePoint deadline = loop_->Now().PlusMs(timeout_ms);
  while (!held_.empty() && loop_->Now() < deadline) {
    pollfd ready{own_fd_.valid() ? own_fd_.get() : shared_fd_, POLLOUT, 0};
    poll(&ready, 1, static_cast<int>(std::max<int64_t>(1, deadline.MsSince(loop_->Now()))));
    Write();
  }
}

}  // namespace farandole::agent::output
