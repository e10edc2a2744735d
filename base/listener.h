#ifndef FARANDOLE_BASE_LISTENER_H_
#define FARANDOLE_BASE_LISTENER_H_

#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "base/event_loop.h"
#include "base/unique_fd.h"

namespace farandole {

// Next connection of a listening socket, non-blocking; an invalid descriptor when there is none. RESOURCE_EXHAUSTED:
// no descriptors or memory, or something denies it, such as a security module; the connection may stay in the queue.
absl::StatusOr<UniqueFd> AcceptNext(int listening_fd);

// Takes the connections of a listening socket, on a loop. When none can be taken, as there are no descriptors, the
// socket stays readable: it is left alone for a moment, so that the loop does not spin, and then asked again, for ever.
// Everything on the loop's thread, or while the loop does not run.
class Listener {
 public:
  using OnConnection = std::function<void(UniqueFd connection)>;
  // Told, each time, why nothing can be taken now.
  using OnExhausted = std::function<void(const std::string& why)>;

  // Connections taken in one turn of the loop.
  static constexpr int kConnectionsPerTurn = 64;
  // How long the socket is left alone.
  static constexpr int64_t kPauseMs = 100;

  Listener(EventLoop* loop, OnConnection on_connection, OnExhausted on_exhausted = nullptr);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // `fd` listens, does not block and stays the caller's, who closes it after StopFromLoop. Once.
  void StartFromLoop(int fd);
  // Nothing is taken afterwards. Callable from a callback.
  void StopFromLoop();

 private:
  void Watch();
  void TakeSome();

  EventLoop* const loop_;
  const OnConnection on_connection_;
  const OnExhausted on_exhausted_;
  int fd_ = -1;
  EventLoop::TimerId pause_ = 0;  // not 0: the loop does not look at `fd_`
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_LISTENER_H_
