#ifndef FARANDOLE_WORKER_CHANNEL_SETUP_H_
#define FARANDOLE_WORKER_CHANNEL_SETUP_H_

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "transport/transport.h"
#include "worker/bootstrap.h"
#include "worker/group.h"

namespace farandole {

// Opens a channel to each of these positions of the group; blocks. Every member publishes the address it listens on
// under "<transport>/<key>/addr/<position>"; of two members the higher position connects. The secret is the group's,
// the domain its job, generation and key. `terms` is what all members have to agree on, in words.
//   UNAVAILABLE, DEADLINE_EXCEEDED  a peer did not come within the group's setup time; the text names it
//   FAILED_PRECONDITION             a peer has other terms; the text has both
//   ABORTED                         the generation is over
absl::StatusOr<std::map<int, std::unique_ptr<Channel>>> OpenChannels(const Group& group, const std::vector<int>& peers,
                                                                     const std::string& terms, Transport* transport,
                                                                     Bootstrap* bootstrap);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_CHANNEL_SETUP_H_
