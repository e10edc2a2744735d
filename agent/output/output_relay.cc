#include "agent/output/output_relay.h"

#include <sys/epoll.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace farandole::agent::output {
namespace {

constexpr size_t kReadBytes = 64 << 10;
// A pipe holds at most 1 MiB unless root says otherwise.
constexpr int kLastReadsMax = 64;

}  // namespace

OutputRelay::OutputRelay(EventLoop* loop, UniqueFd pipe, std::string prefix, OutputSink* sink)
    : loop_(loop), pipe_(std::move(pipe)), sink_(sink), cutter_(std::move(prefix)) {
  Watch(true);
}

OutputRelay::~OutputRelay() { Watch(false); }

void OutputRelay::Watch(bool on) {
  if (on == watched_) return;
  watched_ = on;
  if (on) {
    loop_->AddFdFromLoop(pipe_.get(), EPOLLIN, [this](uint32_t) { Readable(); });
  } else {
    loop_->RemoveFdFromLoop(pipe_.get());
  }
}

bool OutputRelay::ReadOnce() {
  char buffer[kReadBytes];
  const ssize_t n = read(pipe_.get(), buffer, sizeof buffer);
  if (n > 0) {
    sink_->WriteFromLoop(cutter_.Add(absl::string_view(buffer, n)));
    return true;
  }
  if (n < 0 && errno == EINTR) return true;
  const bool ended = n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK);
  if (ended) Watch(false);
  return false;
}

void OutputRelay::Readable() {
  ReadOnce();
  if (!watched_ || !sink_->Full()) return;
  Watch(false);
  sink_->WhenRoomFromLoop([this, alive = std::weak_ptr<bool>(alive_)] {
    if (!alive.expired()) Watch(true);
  });
}

void OutputRelay::FinishFromLoop() {
  for (int i = 0; i < kLastReadsMax && ReadOnce(); ++i) {
  }
  sink_->WriteFromLoop(cutter_.Finish());
}

}  // namespace farandole::agent::output
