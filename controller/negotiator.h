#ifndef FARANDOLE_CONTROLLER_NEGOTIATOR_H_
#define FARANDOLE_CONTROLLER_NEGOTIATOR_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "controller/open_wait.h"
#include "controller/rank_set.h"
#include "controller/signature_check.h"
#include "proto/types.h"

namespace farandole {

// A collective that all members have announced alike.
struct ReadyTensor {
  std::string name;
  Signature signature;
  // ALLGATHER only: dimension 0 of every member.
  std::vector<int64_t> first_dims;
};

// The table of requests by (process set, name): who has announced what. Pure. One announcement costs one look-up and
// one comparison of signatures, whatever the number of members; only the last one, of an allgather or of a mismatch,
// costs more.
//
// An entry: absent -> waiting (some have announced) -> ready (all have; Close ends it) or mismatch (removed at once).
class Negotiator {
 public:
  // All members are in the one process set there is, 0; ranks are 0 .. size-1.
  explicit Negotiator(int size);

  enum class Verdict {
    kWaiting,    // others are missing
    kReady,      // this was the last one; the tensor is in Outcome::ready and stays in the table until Close
    kMismatch,   // this was the last one and ranks disagree; Outcome::text says how; no longer in the table
    kDuplicate,  // this rank has announced the name already; nothing changed
  };
  struct Outcome {
    Verdict verdict = Verdict::kWaiting;
    ReadyTensor ready;
    std::string text;
    TimePoint since;  // the first announcement
  };
  Outcome Announce(Rank rank, const Request& request, TimePoint now);

  // A ready tensor was dispatched.
  void Close(uint32_t process_set, const std::string& name);

  // What `rank` has announced and does not list in `requests` is no longer announced by it, unless it is ready.
  void Retain(Rank rank, const std::vector<Request>& requests);

  // Names that the same ranks wait for.
  struct Abandoned {
    std::vector<std::string> names;
    RankSet ranks;
  };
  // Empties the table, because nothing in it can be completed any more: what was open, in the order of first
  // announcement, without `leaver`'s own requests.
  std::vector<Abandoned> Abandon(Rank leaver);

  // Everything announced is void.
  void Clear();
  // True if this period has all that is announced, with the same signatures.
  bool Within(const Period& period) const;

  // Requests announced by `rank` and not dispatched.
  uint32_t OpenCount(Rank rank) const { return open_[rank.value()]; }
  // What some have announced and others have not, oldest first, at most `max`.
  std::vector<OpenWait> Waits(size_t max) const;

 private:
  struct Entry {
    Signature common;
    std::vector<Deviation> deviations;
    RankSet announced;
    std::vector<int64_t> first_dims;
    TimePoint since;
    uint64_t sequence = 0;
    bool ready = false;
  };
  using Key = std::pair<uint32_t, std::string>;
  using KeyView = std::pair<uint32_t, absl::string_view>;
  struct KeyHash {
    using is_transparent = void;
    size_t operator()(const KeyView& k) const { return absl::Hash<KeyView>()(k); }
    size_t operator()(const Key& k) const { return (*this)(KeyView(k.first, k.second)); }
  };
  struct KeyEqual {
    using is_transparent = void;
    bool operator()(const KeyView& a, const KeyView& b) const { return a == b; }
  };
  using Table = absl::flat_hash_map<Key, std::unique_ptr<Entry>, KeyHash, KeyEqual>;

  Outcome Finish(Table::iterator it);
  void Unannounce(Entry* entry, Rank rank);
  void Erase(Table::iterator it);
  std::vector<Table::const_iterator> InOrder() const;

  const int size_;
  Table table_;
  std::vector<uint32_t> open_;
  uint64_t next_sequence_ = 1;
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_NEGOTIATOR_H_
