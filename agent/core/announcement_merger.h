#ifndef FARANDOLE_AGENT_CORE_ANNOUNCEMENT_MERGER_H_
#define FARANDOLE_AGENT_CORE_ANNOUNCEMENT_MERGER_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "proto/messages.h"

namespace farandole::agent::core {

// Rule A2: announcements of the workers of one host travel together, and as one where they say the same; answers to
// Halt likewise. As long as one worker of this host has not announced a tensor nobody can execute it, so what the
// others say about it can wait for that one, and goes out in one message with it. Pure; whoever uses it lets nothing
// wait for long, since the controller also tells people who is late.
class AnnouncementMerger {
 public:
  // Keeps what worker says of `workers` on this host. True: all that is kept should go out now, because one of its
  // tensors has now been announced by every worker, or every worker has halted.
  bool Add(size_t workers, Incarnation worker, Announce announce);
  bool Add(size_t workers, Incarnation worker, Halted halted);
  bool empty() const { return kept_.empty(); }
  // Hands out what is kept, each worker's messages in their order; workers that say the same as one, those who spoke
  // last behind.
  std::vector<FromWorker> Take();
  // After something else than announcements may have changed who has announced what: forgets who did, so that at worst
  // one more announcement waits. Empty() only.
  void Forget() { announced_.clear(); }

  // Something passes downward: which names the slots of the signature cache have, so that a tensor counts as one
  // however it is announced. Not knowing costs a wait.
  void NoteDown(const WorkerDown& message);

 private:
  // What one worker said since the last Take; announcements are put together as far as they mean the same in one.
  struct Kept {
    Incarnation worker;
    std::vector<WorkerUp> messages;
  };
  using Key = std::pair<uint32_t, std::string>;

  Kept* KeptOf(Incarnation worker);
  // True if all have now.
  bool Count(size_t workers, Incarnation worker, Key key);

  std::vector<Kept> kept_;  // by the last message
  // Who has announced a tensor, by process set and name, until all have. As large as the workers' tables of requests.
  absl::flat_hash_map<Key, std::vector<Incarnation>> announced_;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, std::string> names_;  // by process set and slot
};

}  // namespace farandole::agent::core

#endif  // FARANDOLE_AGENT_CORE_ANNOUNCEMENT_MERGER_H_
