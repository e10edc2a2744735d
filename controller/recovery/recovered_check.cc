#include "controller/recovery/recovered_check.h"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/ready/process_sets.h"
#include "controller/replay/replay_state.h"

namespace farandole::controller::recovery {
namespace {

// Far above what a job of years comes to, and one may count on from there.
constexpr uint64_t kIndexMax = uint64_t{1} << 62;
constexpr uint32_t kPhaseMax = uint32_t{1} << 31;

class Check {
 public:
  explicit Check(const Recovered& found) : found_(found), size_(static_cast<int32_t>(found.members.size())) {}

  std::string Problem() {
    if (size_ == 0) return "it has no members";
    if (found_.view.members.size() != found_.members.size()) return "it has another number of members";
    for (const Registered& member : found_.members) CheckMember(member.hello);
    for (const ProcessSet& set : found_.process_sets) CheckSet(set);
    for (const auto& entry : found_.items) {
      if (const SetChanged* changed = std::get_if<SetChanged>(&entry.second.body)) CheckSet(changed->process_set);
    }
    if (sets_.size() > ready::ProcessSets::kSetsMax) Say(absl::StrCat("it has ", sets_.size(), " process sets"));
    for (const auto& entry : found_.items) CheckItem(entry.first, entry.second);
    return problem_;
  }

 private:
  void Say(std::string problem) {
    if (problem_.empty()) problem_ = std::move(problem);
  }

  void CheckMember(const Hello& hello) {
    if (hello.received_through > kIndexMax) Say(absl::StrCat("somebody has received item ", hello.received_through));
    if (hello.phase > kPhaseMax) Say(absl::StrCat("somebody is in phase ", hello.phase));
  }

  // Rising, and of this job.
  bool Ranks(const std::vector<Rank>& ranks) const {
    for (size_t i = 0; i < ranks.size(); ++i) {
      if (!ranks[i].known() || ranks[i].value() >= size_ || (i > 0 && !(ranks[i - 1] < ranks[i]))) return false;
    }
    return true;
  }

  void CheckSet(const ProcessSet& set) {
    if (set.id == 0) return;
    sets_.insert(set.id);
    if (set.ranks.empty() || !Ranks(set.ranks)) {
      Say(absl::StrCat("process set ", set.id, " has ranks that ", size_, " members do not have"));
    }
  }

  void CheckItem(uint64_t index, const Item& item) {
    if (index == 0 || index > kIndexMax) Say(absl::StrCat("somebody retains item ", index));
    if (item.phase > kPhaseMax) Say(absl::StrCat("item ", index, " is of phase ", item.phase));
    if (const Resume* resume = std::get_if<Resume>(&item.body)) CheckBegun(index, *resume);
  }

  void CheckBegun(uint64_t index, const Resume& resume) {
    const auto replay = found_.items.find(resume.replay_index);
    const Replay* period = replay == found_.items.end() ? nullptr : std::get_if<Replay>(&replay->second.body);
    std::map<uint32_t, size_t> count;  // by process set
    uint64_t last = 0;
    for (const Begun& begun : resume.begun) {
      const bool rises = count.empty() || begun.seq > last;
      last = begun.seq;
      if (!rises || !Ranks(begun.started))
        Say(absl::StrCat("item ", index, " lists batches that nobody can have begun"));
      const auto* batches = period == nullptr || period->period.batches.empty() ? nullptr : &period->period.batches;
      const uint32_t set = batches == nullptr ? 0 : (*batches)[begun.seq % batches->size()].process_set;
      if (++count[set] > replay::ReplayState::kBegunPerSetMax) {
        Say(absl::StrCat("item ", index, " lists more begun batches than can be"));
        return;
      }
    }
  }

  const Recovered& found_;
  const int32_t size_;
  std::set<uint32_t> sets_;
  std::string problem_;
};

}  // namespace

std::string FindImpossible(const Recovered& found) {
  std::string problem = Check(found).Problem();
  if (problem.empty()) return problem;
  return absl::StrCat("what its members retained cannot be: ", problem,
                      "; this is a bug in Farandole; please report it");
}

}  // namespace farandole::controller::recovery
