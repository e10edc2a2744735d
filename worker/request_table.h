#ifndef FARANDOLE_WORKER_REQUEST_TABLE_H_
#define FARANDOLE_WORKER_REQUEST_TABLE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "worker/operation.h"

namespace farandole {

// The requests of a worker that have no answer yet, at most one per (process set, name): open until an item of the
// controller names it or a batch of the replay takes it, then assigned until it is answered (docs/replay.md, section
// 1). Not thread-safe.
class RequestTable {
 public:
  // False: one of that process set and name is there already.
  bool Add(std::shared_ptr<Operation> operation);

  // W6: open -> assigned. nullptr if it is not open.
  std::shared_ptr<Operation> Assign(uint32_t process_set, absl::string_view name);

  // W8: assigned -> open, at its old place in the order of submission. False if it is not there any more.
  bool Reopen(const Operation& operation);

  // Assigned -> answered: the name is free again.
  void Remove(const Operation& operation);

  // nullptr: it is not open.
  const Operation* Find(uint32_t process_set, absl::string_view name) const;

  // The open one that was submitted first; nullptr: none. Looks at all.
  const Operation* Oldest() const;

  // In order of submission.
  std::vector<std::shared_ptr<Operation>> Open() const;
  // The same, and forgets them.
  std::vector<std::shared_ptr<Operation>> TakeOpen();

  size_t size() const { return entries_.size(); }
  size_t open() const { return open_; }

 private:
  struct Entry {
    std::shared_ptr<Operation> operation;
    uint64_t order;
    bool assigned;
  };
  // The name is the operation's own, which its entry keeps alive.
  using Key = std::pair<uint32_t, absl::string_view>;

  static Key KeyOf(const Operation& operation);

  absl::flat_hash_map<Key, Entry> entries_;
  uint64_t next_order_ = 0;
  size_t open_ = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_REQUEST_TABLE_H_
