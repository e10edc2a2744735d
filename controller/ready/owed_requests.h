#ifndef FARANDOLE_CONTROLLER_READY_OWED_REQUESTS_H_
#define FARANDOLE_CONTROLLER_READY_OWED_REQUESTS_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "controller/types/rank_set.h"

namespace farandole::controller::ready {

// Requests of instances that were withdrawn, of those who had started them: they have them open again, and announce
// them once they have taken the instance back. Until then none of them stands in with zeros, though it may have joined.
// Pure.
class OwedRequests {
 public:
  void Add(uint32_t process_set, const std::string& name, const RankSet& ranks) {
    owed_[{process_set, name}].AddAll(ranks);
  }
  void Announced(uint32_t process_set, const std::string& name, const std::vector<Rank>& ranks);
  // It announces nothing any more.
  void Forget(Rank rank);
  void Clear() { owed_.clear(); }

  // `ranks` without those who owe this one.
  RankSet Without(RankSet ranks, uint32_t process_set, const std::string& name) const;
  // The first of this set, "" if there is none.
  std::string FirstOf(uint32_t process_set) const;
  bool empty() const { return owed_.empty(); }

 private:
  std::map<std::pair<uint32_t, std::string>, RankSet> owed_;  // never empty sets
};

}  // namespace farandole::controller::ready

#endif  // FARANDOLE_CONTROLLER_READY_OWED_REQUESTS_H_
