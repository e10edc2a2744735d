#ifndef FARANDOLE_CONTROLLER_READY_JOIN_STATE_H_
#define FARANDOLE_CONTROLLER_READY_JOIN_STATE_H_

#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "controller/types/rank_set.h"
#include "proto/types.h"

namespace farandole::controller::ready {

// Who is inside join(). Pure.
class JoinState {
 public:
  // False: it has joined already; nobody counts twice.
  bool Join(Rank rank, const std::string& name, TimePoint now);
  // As if it had not.
  void TakeBack(Rank rank);
  void Reset();

  const RankSet& ranks() const { return ranks_; }
  // Somebody has been inside.
  TimePoint since() const { return since_; }
  // That joined last; nobody: unknown.
  Rank last() const { return order_.empty() ? Rank() : order_.back(); }
  // Who asked under which name.
  const std::vector<std::pair<std::string, RankSet>>& names() const { return names_; }

 private:
  RankSet ranks_;
  TimePoint since_;
  std::vector<Rank> order_;
  // Scripts use one name; another costs an entry more.
  std::vector<std::pair<std::string, RankSet>> names_;
};

}  // namespace farandole::controller::ready

#endif  // FARANDOLE_CONTROLLER_READY_JOIN_STATE_H_
