#ifndef FARANDOLE_TRANSPORT_VERBS_LIFELINE_H_
#define FARANDOLE_TRANSPORT_VERBS_LIFELINE_H_

#include <functional>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "base/event_loop.h"
#include "base/private_fd.h"
#include "transport/tcp/message_stream.h"
#include "transport/verbs/terms.h"

namespace farandole::transport::verbs {

// The socket on which two ends have met, which stays open beside their queue pairs: a reliable connection whose peer
// has died tells only who sends, and late. Here the kernel of the peer's machine tells at once that its process has
// ended, and probes find a machine that has vanished, as on any connection of the TCP transport. All on the loop's
// thread.
class Lifeline {
 public:
  // The peer has closed: what it has sent in all; nothing if it did not say. Called at most once.
  using Ended = std::function<void(absl::optional<Goodbye> goodbye, absl::Status why)>;

  Lifeline(EventLoop* loop, PrivateFd socket);
  ~Lifeline() { CloseFromLoop(); }

  void WatchFromLoop(Ended ended);
  // For the peer, if it is still there.
  void SayGoodbyeFromLoop(const Goodbye& goodbye);
  void CloseFromLoop();

 private:
  void ReadFromLoop();

  EventLoop* const loop_;
  PrivateFd socket_;
  tcp::MessageStream stream_;
  Ended ended_;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_LIFELINE_H_
