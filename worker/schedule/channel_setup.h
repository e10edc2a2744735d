#ifndef FARANDOLE_WORKER_SCHEDULE_CHANNEL_SETUP_H_
#define FARANDOLE_WORKER_SCHEDULE_CHANNEL_SETUP_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/transport.h"
#include "worker/collective/bootstrap.h"
#include "worker/collective/group.h"

namespace farandole::worker::schedule {

// What all members of a group have to agree on.
struct ChannelTerms {
  std::string text;  // for people, too
  // Connections that one channel consists of.
  int connections = 1;
  // Nobody between two members can read or change their data.
  bool encrypted = false;
};

// Opens a channel to each of these positions of the group; blocks. Every member publishes the address it listens on
// under "<transport>/<key>/addr/<position>"; of two members the higher position connects. The secret is the group's,
// the domain its job, generation and key.
//   UNAVAILABLE, DEADLINE_EXCEEDED  a peer did not come within the group's setup time; the text names it
//   FAILED_PRECONDITION             a peer has other terms; the text has both
//   ABORTED                         the generation is over
absl::StatusOr<std::map<int, std::unique_ptr<transport::Channel>>> OpenChannels(const collective::Group& group,
                                                                                const std::vector<int>& peers,
                                                                                const ChannelTerms& terms,
                                                                                transport::Transport* transport,
                                                                                collective::Bootstrap* bootstrap);

}  // namespace farandole::worker::schedule

#endif  // FARANDOLE_WORKER_SCHEDULE_CHANNEL_SETUP_H_
