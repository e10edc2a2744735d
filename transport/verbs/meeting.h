#ifndef FARANDOLE_TRANSPORT_VERBS_MEETING_H_
#define FARANDOLE_TRANSPORT_VERBS_MEETING_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/event_loop.h"
#include "base/private_fd.h"
#include "transport/tcp/message_stream.h"
#include "transport/transport.h"
#include "transport/verbs/link.h"
#include "transport/verbs/terms.h"

namespace farandole::transport::verbs {

// How two ends that have proved who they are connect their queue pairs. Both do the same:
//
//   TERMS --the peer's Terms are well-formed--> PROOF --its MAC is right, queue pairs connected--> READY --its Ready-->
//   over any --malformed, wrong MAC, the device refuses, the peer closed, deadline--> over
//
// All on the loop's thread.
class Meeting {
 public:
  // What two ends that have met have.
  struct Met {
    PrivateFd socket;
    std::unique_ptr<Link> link;
    size_t eager_bytes = 0;
    Pairing pairing;
    Transport::Ready ready;
  };
  // Called once, and not inside Start or Stop; may destroy this object. With an error, `met` still has its `ready`.
  using Over = std::function<void(absl::Status status, Met met)>;

  Meeting(EventLoop* loop, Met met, TimePoint deadline, Over over);
  ~Meeting();

  // `eager_bytes` of this end.
  void StartFromLoop(size_t eager_bytes);
  // Ends it with this status.
  void EndFromLoop(absl::Status status);

 private:
  enum class State { kTerms, kProof, kReady };

  void ReadFromLoop();
  absl::Status Handle(const std::string& message, bool* met);

  EventLoop* const loop_;
  Met met_;
  const TimePoint deadline_;
  Over over_;
  State state_ = State::kTerms;
  tcp::MessageStream stream_;
  std::string own_terms_;
  std::string peer_terms_;
  Terms peer_;
  EventLoop::TimerId timer_ = 0;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_MEETING_H_
