#ifndef FARANDOLE_CONTROLLER_MEMBERS_FAILURE_REPORTS_H_
#define FARANDOLE_CONTROLLER_MEMBERS_FAILURE_REPORTS_H_

#include <cstddef>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/types/optional.h"
#include "proto/types.h"

namespace farandole::controller::members {

// What members report about failed collectives, and who is to blame if no process has died. Pure.
//
// A member that waits for one that itself waits for a third suspects the wrong one. But who reports a failure lives and
// reaches the controller, so:
//   1. a suspect that has reported nothing is to blame;
//   2. otherwise, if a member suspects one of another host, the link between these hosts; best one of which both ends
//      suspect the other;
//   3. otherwise what is reported by a member that suspects nobody: it has a reason of its own;
//   4. otherwise nobody: the reports stand side by side.
class FailureReports {
 public:
  // A member's first report counts. `suspect`: whom its failure points to; nobody or itself: it has its own reason.
  void Add(const Member& reporter, const absl::optional<Member>& suspect, const std::string& reason);
  bool empty() const { return reports_.empty(); }
  void Clear() { *this = FailureReports(); }
  bool Suspects(Rank rank) const { return suspected_.contains(rank); }

  // One sentence. Not empty().
  std::string Verdict() const;

 private:
  struct Report {
    Member reporter;
    absl::optional<Member> suspect;
    std::string sentence;  // "rank 0 (pid 7 on host a) reports: ..."
  };

  bool HasReported(Rank rank) const { return by_reporter_.contains(rank); }
  const Report& ReportOf(Rank rank) const { return reports_[by_reporter_.at(rank)]; }
  // "" if that is not the case.
  std::string AboutSilent() const;
  std::string AboutLink() const;
  std::string AboutOwnReason() const;

  std::vector<Report> reports_;  // in order of arrival
  absl::flat_hash_map<Rank, size_t> by_reporter_;
  absl::flat_hash_set<Rank> suspected_;
};

}  // namespace farandole::controller::members

#endif  // FARANDOLE_CONTROLLER_MEMBERS_FAILURE_REPORTS_H_
