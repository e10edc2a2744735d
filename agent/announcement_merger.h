#ifndef FARANDOLE_AGENT_ANNOUNCEMENT_MERGER_H_
#define FARANDOLE_AGENT_ANNOUNCEMENT_MERGER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proto/messages.h"

namespace farandole {

// Rule A2: announcements of the workers of one host travel together. As long as one worker of this host has not
// announced a tensor nobody can execute it, so what the others say about it can wait for that one, and goes out in one
// message with it. Pure; whoever uses it lets nothing wait for long, since the controller also tells people who is
// late.
class AnnouncementMerger {
 public:
  // Keeps what worker says of `workers` on this host. True: all that is kept should go out now, because one of its
  // tensors has now been announced by every worker.
  bool Add(size_t workers, Incarnation worker, Announce announce);
  bool empty() const { return kept_.empty(); }
  // Hands out what is kept, in the order of Add.
  std::vector<FromWorker> Take() { return std::exchange(kept_, {}); }
  // After something else than announcements may have changed who has announced what: forgets who did, so that at worst
  // one more announcement waits. Empty() only.
  void Forget() { announced_.clear(); }

 private:
  std::vector<FromWorker> kept_;
  // Who has announced a tensor, by process set and name, until all have. As large as the workers' tables of requests.
  absl::flat_hash_map<std::pair<uint32_t, std::string>, std::vector<Incarnation>> announced_;
};

}  // namespace farandole

#endif  // FARANDOLE_AGENT_ANNOUNCEMENT_MERGER_H_
