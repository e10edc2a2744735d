#ifndef FARANDOLE_CONTROLLER_READY_OWED_REQUESTS_H_
#define FARANDOLE_CONTROLLER_READY_OWED_REQUESTS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "controller/types/open_wait.h"
#include "controller/types/rank_set.h"
#include "proto/messages.h"

namespace farandole::controller::ready {

// Requests of instances that were withdrawn, of those who had started them: they have them open again, and announce
// them once they have taken the instance back. Until then none of them stands in with zeros, though it may have joined.
// Pure.
class OwedRequests {
 public:
  void Add(uint32_t process_set, const std::string& name, const RankSet& ranks) {
    owed_[{process_set, name}].AddAll(ranks);
  }
  // What its Hello says that it is taking back. What an earlier one said and this one does not it has open again.
  void Said(Rank rank, const std::vector<RequestName>& taking_back);
  // About as much memory as this takes.
  size_t said_bytes() const { return said_bytes_; }
  void Announced(uint32_t process_set, const std::string& name, const std::vector<Rank>& ranks);
  // It announces nothing any more.
  void Forget(Rank rank);
  void Clear() {
    owed_.clear();
    said_.clear();
    said_bytes_ = 0;
  }

  // `ranks` without those who owe this one.
  RankSet Without(RankSet ranks, uint32_t process_set, const std::string& name) const;
  // Those of `joined` who owe what this waits for are missing, too.
  void AddTo(const RankSet& joined, OpenWait* wait) const;
  // The first of this set, "" if there is none.
  std::string FirstOf(uint32_t process_set) const;
  bool empty() const { return owed_.empty(); }

 private:
  using Key = std::pair<uint32_t, std::string>;

  void Remove(const Key& key, const std::vector<Rank>& ranks);
  void ForgetSaid(Rank rank);

  std::map<Key, RankSet> owed_;  // never empty sets
  std::map<Rank, std::vector<Key>> said_;
  size_t said_bytes_ = 0;
};

}  // namespace farandole::controller::ready

#endif  // FARANDOLE_CONTROLLER_READY_OWED_REQUESTS_H_
