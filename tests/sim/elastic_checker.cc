#include "tests/sim/elastic_checker.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole::sim {
namespace {

// After the end of a disturbance: an agent is given up after 30 s of silence, and who comes late is not waited for.
constexpr int64_t kExcusedMs = 40000;
// For the ways to the controller and back; then the members have to take notice within so many commits.
constexpr int64_t kOnTheWayMs = 1000;
constexpr int kCommits = 4;

}  // namespace

void ElasticChecker::Born(int64_t pid, const std::string& host, const std::string& run) {
  processes_[pid].host = host;
  processes_[pid].run = run;
}

void ElasticChecker::Begins(int64_t pid, Incarnation worker, const Elastic& elastic) {
  TrainingProcess& process = processes_[pid];
  process.worker = worker;
  process.previous = elastic.previous_generation;
  process.home = elastic.home;
  process.begun = verdict_->simulation().now();
  process.waits = true;
  process.commits = 0;
  pids_[worker] = pid;
  CheckPassedOver(pid, process);
}

void ElasticChecker::Joined(int64_t pid, const GenerationId& id) {
  TrainingProcess& process = processes_[pid];
  CheckPassedOver(pid, process);
  process.waits = false;
  process.commits = 0;
  process.member = true;
  process.joined = verdict_->simulation().now();
  process.generation = id;
}

void ElasticChecker::Asked(int64_t pid) {
  processes_[pid].asked = verdict_->simulation().now();
  processes_[pid].commits = 0;
}

void ElasticChecker::Complete(int64_t pid) {
  TrainingProcess& process = processes_[pid];
  // Stopped in the middle it was passed over: the others have begun the next one without what it has.
  if (process.generation.number != last_opened_ && Excused(process)) return;
  process.complete = process.saved;
  if (process.generation.number == last_opened_) CheckServed(process);
}

void ElasticChecker::CheckServed(const TrainingProcess& committer) {
  const int size = opened_[KeyOf(committer.generation)].size;
  for (auto& [pid, process] : processes_) {
    if (process.over || process.run != committer.run) continue;
    const bool waits = process.waits && process.asked == TimePoint::Infinite() && size < sizes_.max_size;
    const bool leaves = !process.waits && process.asked != TimePoint::Infinite() && OthersStay(process);
    if (!(waits && Well(process, process.begun)) && !(leaves && Well(process, process.asked))) continue;
    if (++process.commits <= kCommits * size) continue;
    verdict_->Fail(absl::StrCat("pid ", pid, waits ? " waits to join" : " is to leave", ", and the ", size,
                                " members have committed ", kCommits, " times"));
  }
}

bool ElasticChecker::OthersStay(const TrainingProcess& process) const {
  return std::any_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
    const TrainingProcess& other = entry.second;
    return !other.over && !other.waits && other.member && other.generation == process.generation &&
           other.asked == TimePoint::Infinite();
  });
}

bool ElasticChecker::Well(const TrainingProcess& process, TimePoint since) const {
  const TimePoint now = verdict_->simulation().now();
  const TimePoint due = std::max(since, controller_excused_, Earlier).PlusMs(kOnTheWayMs);
  return due < now && !Excused(process);
}

void ElasticChecker::CheckPassedOver(int64_t pid, const TrainingProcess& process) {
  if (process.passed_over.empty()) return;
  verdict_->Fail(absl::StrCat("pid ", pid, " of run ", process.run, " goes on, but ", process.passed_over));
}

bool ElasticChecker::JoinedSince(const std::string& run, TimePoint since) const {
  return std::any_of(processes_.begin(), processes_.end(), [&](const auto& entry) {
    return entry.second.run == run && entry.second.member && since <= entry.second.joined;
  });
}

void ElasticChecker::Excuse(const std::string& host, TimePoint until) {
  TimePoint& known = excused_[host];
  if (known < until) known = until;
}

bool ElasticChecker::Excused(const TrainingProcess& process) const {
  const auto at = excused_.find(process.host);
  const int64_t margin_ms = kExcusedMs + sizes_.settle_ms;
  return at != excused_.end() && verdict_->simulation().now() < at->second.PlusMs(margin_ms);
}

void ElasticChecker::Opened(const View& view) {
  if (opened_.count(KeyOf(view.generation)) > 0) return;
  Generation& opened = opened_[KeyOf(view.generation)];
  opened.size = static_cast<int>(view.members.size());
  const std::string name =
      absl::StrCat("generation ", view.generation.number, " of controller ", view.generation.controller_incarnation);
  std::set<int64_t> pids;
  CheckMembers(view, name, &pids);
  CheckHomes(view, name);
  last_opened_ = view.generation.number;
  int saved = 0;
  for (int64_t pid : pids) {
    opened.floor = std::max(opened.floor, processes_[pid].complete);
    saved = std::max(saved, processes_[pid].saved);
  }
  CheckOthers(pids, name, saved);
}

void ElasticChecker::CheckMembers(const View& view, const std::string& name, std::set<int64_t>* pids) {
  const int size = static_cast<int>(view.members.size());
  if (size < sizes_.min_size || (sizes_.max_size > 0 && size > sizes_.max_size)) {
    verdict_->Fail(
        absl::StrCat(name, " has ", size, " members, from ", sizes_.min_size, " to ", sizes_.max_size, " are allowed"));
  }
  int newcomers = 0;
  for (const Member& member : view.members) {
    const auto pid = pids_.find(member.worker_incarnation);
    if (pid == pids_.end()) return verdict_->Fail(absl::StrCat(name, " has a member that nobody is"));
    const TrainingProcess& process = processes_[pid->second];
    const TrainingProcess& first = processes_[pids_[view.members[0].worker_incarnation]];
    pids->insert(pid->second);
    if (process.run != first.run) verdict_->Fail(absl::StrCat(name, " has members of two runs"));
    if (process.previous >= view.generation.number) {
      verdict_->Fail(absl::StrCat(name, " opens with pid ", pid->second, ", which was in generation ", process.previous,
                                  " before"));
    }
    if (process.previous == 0) ++newcomers;
    if (finished_.count(process.run) > 0 && (process.previous == 0 || process.previous != last_opened_)) {
      verdict_->Fail(absl::StrCat(name, " takes in pid ", pid->second, " though run ", process.run,
                                  " is finished, and this one was not in its last generation, ", last_opened_));
    }
  }
  if (size == sizes_.min_size) coverage_->Hit("elastic generation as small as may be");
  if (size == sizes_.max_size) coverage_->Hit("elastic generation as large as may be");
  if (newcomers == size) coverage_->Hit("elastic generation of newcomers");
  if (newcomers == 0) coverage_->Hit("elastic generation of survivors");
  if (newcomers > 0 && newcomers < size) coverage_->Hit("elastic generation of both");
}

// Two that missed generations of each other may have had the same one: then the first of them has it.
void ElasticChecker::CheckHomes(const View& view, const std::string& name) {
  std::set<std::pair<int32_t, uint32_t>> settled;
  for (const Member& member : view.members) {
    const TrainingProcess& process = processes_[pids_[member.worker_incarnation]];
    // Of a newcomer it is a wish.
    if (process.previous == 0 || process.home == 0) continue;
    if (process.home > static_cast<uint32_t>(member.local_size)) continue;
    if (!settled.emplace(member.host_number, process.home).second) continue;
    if (member.local_rank + 1 == static_cast<int32_t>(process.home)) continue;
    verdict_->Fail(absl::StrCat(name, " gives local rank ", member.local_rank, " to ", Describe(member),
                                ", whose first one was ", process.home - 1));
  }
}

void ElasticChecker::CheckOthers(const std::set<int64_t>& members, const std::string& name, int saved) {
  const std::string run = processes_[*members.begin()].run;
  for (auto& [pid, process] : processes_) {
    if (process.over || !process.member || members.count(pid) > 0) continue;
    std::string why;
    if (process.run != run) {
      why = absl::StrCat(name, ", of run ", run, ", has opened meanwhile");
    } else if (process.complete > saved) {
      why = absl::StrCat(name, " has opened without it, with ", saved, " steps of the ", process.complete,
                         " that all had committed");
    }
    if (why.empty()) continue;
    if (Excused(process)) {
      coverage_->Hit(process.run != run ? "elastic run begins without members of the last"
                                        : "elastic generation begins without the newest state");
    } else {
      process.passed_over = why;
    }
    process.complete = 0;
  }
}

void ElasticChecker::Synced(int64_t pid, const GenerationId& id, const TrainState& state) {
  const TrainingProcess& process = processes_[pid];
  const int floor = opened_[KeyOf(id)].floor;
  if (state.run != process.run) {
    verdict_->Fail(absl::StrCat("pid ", pid, " of run ", process.run, " is handed the state of run ", state.run));
  }
  if (state.steps < floor) {
    verdict_->Fail(absl::StrCat("in generation ", id.number, " pid ", pid, " is handed a state after ", state.steps,
                                " steps, though a member has ", floor, " that all had committed"));
  }
}

void ElasticChecker::Steps(const GenerationId& id, uint64_t label, const TrainState& state) {
  const auto at = steps_.emplace(std::make_tuple(id.controller_incarnation, id.number, label), state).first;
  if (at->second.steps == state.steps && at->second.run == state.run) return;
  verdict_->Fail(absl::StrCat("in generation ", id.number, " one rank does step ", state.steps, " of run ", state.run,
                              " while another one does step ", at->second.steps, " of run ", at->second.run));
}

}  // namespace farandole::sim
