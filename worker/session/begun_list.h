#ifndef FARANDOLE_WORKER_SESSION_BEGUN_LIST_H_
#define FARANDOLE_WORKER_SESSION_BEGUN_LIST_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "proto/messages.h"

namespace farandole::worker::session {

// The open begun instances of the own process sets: batches of the replay that ended last which some but not all
// members had started when everybody had halted (W7 to W9 of docs/replay.md). At most W per member of the own sets.
class BegunList {
 public:
  struct Entry {
    uint64_t seq;
    bool started_here;
    // Cannot be withdrawn.
    bool final;
    std::vector<std::string> names;  // of its requests, where it was started here
  };
  // A replay has ended with these (W9): forgets the older ones. `own` are those of process sets that include this
  // worker.
  void Reset(uint64_t replay_index, std::vector<Entry> own);

  // An item closes it. Nullopt: this worker had not started it.
  absl::optional<Entry> Strike(uint64_t replay_index, uint64_t seq);

  // True if one of these is open and final.
  bool AnyFinal(uint64_t replay_index, const std::vector<uint64_t>& seqs) const;

  uint64_t replay_index() const { return replay_index_; }
  std::vector<uint64_t> Seqs() const;
  bool empty() const { return entries_.empty(); }

 private:
  uint64_t replay_index_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_BEGUN_LIST_H_
