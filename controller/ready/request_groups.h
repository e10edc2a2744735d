#ifndef FARANDOLE_CONTROLLER_READY_REQUEST_GROUPS_H_
#define FARANDOLE_CONTROLLER_READY_REQUEST_GROUPS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/types/optional.h"
#include "base/clock.h"
#include "controller/ready/process_sets.h"
#include "controller/types/open_wait.h"
#include "controller/types/rank_set.h"
#include "controller/types/ready_tensor.h"
#include "proto/messages.h"
#include "proto/types.h"

namespace farandole::controller::ready {

// Explicit groups whose requests wait for each other: they are dispatched together or not at all. Pure. When one of a
// group cannot be executed none is: on every rank that put it into this group the others end with its error, those that
// it has submitted at once, the rest as soon as it submits them.
class RequestGroups {
 public:
  // What is remembered of failed groups may take, about; beyond that it is forgotten.
  static constexpr size_t kFailedBytesMax = size_t{4} << 20;

  enum class Verdict { kWaiting, kComplete, kFailed };
  struct Outcome {
    Verdict verdict = Verdict::kWaiting;
    std::vector<ReadyTensor> members;  // kComplete: all of the group, by name: arrival has no influence
    std::string text;                  // kFailed: why the group has to Fail
  };
  // `tensor.signature` names the group.
  Outcome Add(const SetMembers& set, ReadyTensor tensor, TimePoint now);

  struct Reason {
    ErrorKind kind = ErrorKind::kMismatch;
    std::string text;
  };
  // The ranks that put a request into a group, and how many requests that has according to each.
  using Part = std::map<Rank, uint32_t>;
  using Parts = std::map<std::string, Part>;  // by the name of the group
  // The request `name` of this group ends for this reason on these ranks. Answers which of its requests were ready:
  // they end, too, and as all who take part have put them there, the group fails on all `present`: `part` has them
  // then.
  std::vector<std::string> Fail(uint32_t process_set, const std::string& group, const RankSet& present, Part* part,
                                const std::string& name, const Reason& reason);
  // These of a failed group have ended on `ranks`, too.
  void Ended(uint32_t process_set, const std::string& group, const std::vector<std::string>& names,
             const RankSet& ranks);
  // `ranks` submit `name` of this group. Nullopt: nothing that concerns any of them has failed. Otherwise why, and
  // `ranks` keeps those whose request ends for that.
  absl::optional<Reason> Late(uint32_t process_set, const std::string& group, const std::string& name, RankSet* ranks);
  bool some_failed() const { return !failed_.empty(); }

  // A group that is not complete, and which of its requests are ready: one at least.
  struct Waiting {
    const SetMembers* set = nullptr;
    std::string name;
    uint32_t size = 0;
    std::vector<std::string> names;
  };
  std::vector<Waiting> AllWaiting() const;

  void Drop(const std::function<bool(uint32_t process_set)>& which);
  // No request of this set waits.
  bool Empty(uint32_t process_set) const;
  // Incomplete ones, at most `max`.
  std::vector<OpenWait> Waits(size_t max) const;

 private:
  struct Group {
    const SetMembers* set = nullptr;
    uint32_t size = 0;
    TimePoint since;
    std::vector<ReadyTensor> ready;
  };
  // What a rank that has not submitted all of a failed group is still to be told.
  struct Rest {
    std::shared_ptr<const Reason> why;
    uint32_t size = 0;
    absl::flat_hash_set<uint64_t> told;  // hashes of names
  };
  using Key = std::pair<uint32_t, std::string>;

  using Rests = std::map<Rank, Rest>;

  std::map<Key, Group> groups_;
  std::map<Key, Rests> failed_;
  size_t failed_bytes_ = 0;  // of all that have failed since there were none
};

}  // namespace farandole::controller::ready

#endif  // FARANDOLE_CONTROLLER_READY_REQUEST_GROUPS_H_
