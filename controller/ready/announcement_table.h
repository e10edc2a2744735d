#ifndef FARANDOLE_CONTROLLER_READY_ANNOUNCEMENT_TABLE_H_
#define FARANDOLE_CONTROLLER_READY_ANNOUNCEMENT_TABLE_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/clock.h"
#include "controller/ready/process_sets.h"
#include "controller/ready/signature_check.h"
#include "controller/types/open_wait.h"
#include "controller/types/rank_set.h"
#include "proto/types.h"

namespace farandole::controller::ready {

// Who has announced what, by (process set, name). Pure; knows nothing of what follows from it. What several ranks say
// alike costs one look-up and one comparison of signatures.
//
// An entry: absent -> waiting (some have announced) -> ready (Negotiator says so) -> absent.
class AnnouncementTable {
 public:
  // What everything that is announced may take, about: a job where all ranks have thousands of tensors open takes a
  // part of it, and one member that announces what the others never do does not take the memory of other jobs.
  static constexpr size_t kBytesMax = size_t{256} << 20;
  static constexpr size_t kBytesMaxPerRank = 16 << 10;

  // Ranks 0 .. size-1.
  explicit AnnouncementTable(int size) : bytes_max_(kBytesMax + size * kBytesMaxPerRank), open_(size, 0) {}

  struct Entry {
    const SetMembers* set = nullptr;
    Signature common;
    std::vector<Deviation> deviations;
    RankSet announced;
    // ALLGATHER: dimension 0 of every member, by position.
    std::vector<int64_t> first_dims;
    // What ranks with impossible splits submitted.
    std::vector<std::pair<Rank, std::string>> impossible;
    TimePoint since;
    uint64_t sequence = 0;
    bool ready = false;
    std::vector<std::string> groups;  // explicit ones into which somebody has put it
    size_t bytes = 0;                 // what it takes, about
  };
  using Key = std::pair<uint32_t, std::string>;

  // These members of `set` announce the request. `known_dims`: of an allgather that they announce by its slot,
  // dimension 0 of every member; otherwise nullptr, and that of the request is theirs. What a rank has announced
  // already stays as it is. Answers the entry, nullptr if nothing changed; valid until it is erased. Once there is no
  // room any more nothing changes: see full().
  Entry* Announce(const SetMembers& set, absl::Span<const Rank> who, const Request& request,
                  const std::vector<int64_t>* known_dims, TimePoint now);

  // nullptr if nobody has announced it. Valid until it is erased.
  Entry* Find(uint32_t process_set, absl::string_view name);
  void Erase(uint32_t process_set, absl::string_view name);
  void Clear();

  // What `rank` has announced and does not list in `requests` is no longer announced by it, unless it is ready.
  void Retain(Rank rank, const std::vector<Request>& requests);

  // Names of one process set that the same ranks wait for.
  struct Abandoned {
    uint32_t process_set;
    std::vector<std::string> names;
    RankSet ranks;
  };
  // What is not ready and was put into this group by `ranks` is no longer announced by them.
  std::vector<Abandoned> Withdraw(uint32_t process_set, const std::string& group, const RankSet& ranks);
  // Nothing can be completed any more in process sets that `leaver` is in: erases what is open there and answers it in
  // the order of first announcement, without the leaver's own requests.
  std::vector<Abandoned> Abandon(Rank leaver);

  // True if this period has all that is announced, with the same signatures.
  bool Within(const Period& period) const;
  // Requests announced by `rank` and not erased.
  uint32_t OpenCount(Rank rank) const { return open_[rank.value()]; }
  bool empty() const { return table_.empty(); }
  // Something was not taken since the last Clear(), as what is announced takes bytes_max() already.
  bool full() const { return full_; }
  size_t bytes_max() const { return bytes_max_; }
  size_t bytes() const { return bytes_; }
  // What is not ready, oldest first. `fn` may erase entries.
  void ForEachWaiting(const std::function<void(const std::string& name, Entry* entry)>& fn);
  // The same as a wait for those who have neither announced nor `joined`, at most `max`.
  std::vector<OpenWait> Waits(const RankSet& joined, size_t max) const;
  // The first entry of this set, "" if there is none.
  std::string FirstOf(uint32_t process_set) const;

 private:
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

  // What `entry` takes from now on, more.
  void Take(Entry* entry, size_t bytes);
  void Unannounce(Entry* entry, Rank rank);
  void NoteGroup(const Key& key, Entry* entry, const std::string& group);
  static void AddTo(std::vector<Abandoned>* all, const Key& key, RankSet ranks);
  void Erase(Table::iterator it);
  std::vector<const Table::value_type*> InOrder() const;

  const size_t bytes_max_;
  size_t bytes_ = 0;  // of all entries
  bool full_ = false;
  Table table_;
  // By process set and group.
  absl::flat_hash_map<Key, absl::flat_hash_set<std::string>> names_of_groups_;
  std::vector<uint32_t> open_;
  uint64_t next_sequence_ = 1;
};

}  // namespace farandole::controller::ready

#endif  // FARANDOLE_CONTROLLER_READY_ANNOUNCEMENT_TABLE_H_
