#ifndef FARANDOLE_WORKER_SESSION_REQUEST_TABLE_H_
#define FARANDOLE_WORKER_SESSION_REQUEST_TABLE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "worker/session/operation.h"

namespace farandole::worker::session {

// The requests of a worker that have no answer yet, at most one per (process set, name): open until an item of the
// controller names it or a batch of the replay takes it, then assigned until it is answered (docs/replay.md, section
// 1). Training submits the same names over and over, mostly in one order: each name keeps its place after its answer,
// and the one that followed it last is looked at first when the next comes. Not thread-safe.
class RequestTable {
 public:
  // So many names without a request are remembered.
  static constexpr size_t kIdleMax = 2048;

  // False: one of that process set and name is there already.
  bool Add(const std::shared_ptr<Operation>& operation);

  // An item answers it (W6): open -> assigned; it is the caller's from then on. nullptr if it is not open.
  std::shared_ptr<Operation> Assign(uint32_t process_set, absl::string_view name);
  // A batch of the replay starts (W4): the same of the one in this slot, which must be open.
  std::shared_ptr<Operation> Assign(uint32_t place) {
    Entry& entry = entries_[place];
    std::shared_ptr<Operation> taken = std::move(entry.operation);
    entry.operation = std::shared_ptr<Operation>(std::shared_ptr<Operation>(), taken.get());
    entry.open = false;
    --open_;
    return taken;
  }
  // It is there: open or assigned.
  bool Holds(const Operation& operation) const {
    return operation.place < entries_.size() && entries_[operation.place].operation.get() == &operation;
  }

  // Its batch was taken back (W8): assigned -> open, at its old position in the order of submission. False if it is not
  // there any more.
  bool Reopen(const std::shared_ptr<Operation>& operation);

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

  size_t size() const { return size_; }
  size_t open() const { return open_; }

 private:
  struct Entry {
    // Null: idle. Owned while it is open.
    std::shared_ptr<Operation> operation;
    const Request* named = nullptr;  // the first that had this name; null: no name has this place
    uint32_t next = 0;               // place of the one that was added after it last
    bool open = false;
  };
  // The name is that of the entry's `named`.
  using Key = std::pair<uint32_t, absl::string_view>;

  static Key KeyOf(const Request& request) { return {request.signature.process_set, request.name}; }
  uint32_t PlaceOf(const std::shared_ptr<const Request>& request) {
    if (!entries_.empty() && entries_[entries_[last_].next].named == request.get()) return entries_[last_].next;
    return FindPlace(request);
  }
  uint32_t FindPlace(const std::shared_ptr<const Request>& request);
  uint32_t NewPlace(const std::shared_ptr<const Request>& request);
  void ForgetIdle();

  absl::flat_hash_map<Key, uint32_t> places_;
  std::vector<Entry> entries_;
  std::vector<std::shared_ptr<const Request>> named_;  // of each entry
  std::vector<uint32_t> free_;
  uint32_t last_ = 0;  // place of the one that was added last
  uint64_t next_order_ = 0;
  size_t size_ = 0;
  size_t open_ = 0;
};

}  // namespace farandole::worker::session

#endif  // FARANDOLE_WORKER_SESSION_REQUEST_TABLE_H_
