#include "tests/sim/cluster.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tests/sim/pod.h"
#include "tests/sim/slot.h"

namespace farandole::sim {
namespace {

// After SIGTERM and what the agent takes for its workers.
constexpr int64_t kKilledAfterMs = 12000;
// More than that after which an agent is given up, with the time for which the controller may have stood still.
constexpr int64_t kSilenceMs = 60000;

}  // namespace

void Cluster::Start() { NewRun(); }

void Cluster::NewRun() {
  Random& random = world_->random();
  Run run;
  run.work.run = absl::StrCat("uid-", runs_.size() + 1);
  run.work.steps = static_cast<int>(random.Skewed(20, 400));
  run.work.commit_every = static_cast<int>(random.Skewed(1, 10));
  run.work.tensors = static_cast<int>(random.Between(1, 3));
  run.work.compute_us = random.Percent(50) ? 5000 : 60000;
  run.parallelism = AnyParallelism();
  runs_.push_back(run);
  Fill(runs_.size() - 1);
}

// Enough for the smallest generation, and up to one pod more than there is room for.
int Cluster::AnyParallelism() {
  const Setting& setting = world_->setting;
  const int workers = setting.pod_workers;
  return static_cast<int>(world_->random().Between((setting.elastic.min_size + workers - 1) / workers,
                                                   setting.elastic.max_size / workers + 1));
}

int Cluster::Count(size_t run, bool asked) const {
  int count = 0;
  for (size_t i = 0; i < places_.size(); ++i) {
    if (run_of_[i] == run && places_[i]->alive() && (asked || !places_[i]->asked())) ++count;
  }
  return count;
}

void Cluster::Fill(size_t run) {
  while (!runs_[run].deleted && !runs_[run].succeeded && Count(run, false) < runs_[run].parallelism) Add(run);
}

Place* Cluster::NewPlace(size_t run) {
  const Setting& setting = world_->setting;
  run_of_.push_back(run);
  if (setting.launched) {
    const int host = static_cast<int>(places_.size()) % setting.agents;
    places_.push_back(world_->simulation.Keep(std::make_shared<Slot>(world_, runs_[run].work, host)));
  } else {
    places_.push_back(world_->simulation.Keep(std::make_shared<Pod>(world_, runs_[run].work, setting.pod_workers)));
  }
  return places_.back();
}

void Cluster::Add(size_t run) {
  Place* const place = NewPlace(run);
  world_->simulation.Trace(absl::StrCat("on h", place->host(), " a place of run ", runs_[run].work.run, " starts"));
  place->Start([this, run, place](absl::optional<int> code) { Ended(run, place, code); });
}

void Cluster::Ended(size_t run, Place* place, absl::optional<int> code) {
  const char* const kind = world_->setting.launched ? "slot" : "pod";
  const std::string how = code ? absl::StrCat("with ", *code) : "without a word";
  world_->simulation.Trace(absl::StrCat(kind, " on h", place->host(), " ends ", how));
  world_->coverage->Hit(absl::StrCat(kind, " ends ", how));
  if (place == late_) {
    if (code != 0) world_->checker.Fail("a pod that came after the end of its run has failed");
    return;
  }
  // A launcher takes one that it has asked to leave for one that has left.
  if (code == 0 && !(world_->setting.launched && place->asked())) Succeeded(run);
  // A third run is refused until the end of the first is known, which silence may have to tell. A pod that has lost one
  // of its workers before may wait in vain for others to hand the state to.
  const bool quiet = world_->quiet_from.PlusMs(run > 1 ? kSilenceMs : 0) <= world_->simulation.now();
  if (quiet && code && code != 0 && !place->asked() && !place->degraded() && !runs_[run].succeeded) {
    world_->checker.Fail(absl::StrCat("after all faults a ", kind, " on h", place->host(), " has failed"));
  }
  world_->simulation.AfterUs(world_->random().Skewed(10000, 10000000), [this, run] { Fill(run); });
}

void Cluster::Succeeded(size_t run) {
  runs_[run].succeeded = true;
  if (!world_->setting.launched) return;
  for (Place* place : places_) {
    if (place->alive() && place->OnlyWaits()) place->Kill();
  }
}

Place* Cluster::AnyPlace() {
  std::vector<Place*> living;
  std::copy_if(places_.begin(), places_.end(), std::back_inserter(living),
               [](const Place* place) { return place->alive(); });
  return living.empty() ? nullptr : living[world_->random().Below(living.size())];
}

void Cluster::Evict() {
  Place* const place = AnyPlace();
  if (place == nullptr) return;
  place->AskToLeave();
  const size_t run = run_of_[std::find(places_.begin(), places_.end(), place) - places_.begin()];
  world_->simulation.AfterUs(world_->random().Skewed(1000, 2000000), [this, run] { Fill(run); });
}

void Cluster::KillPod() {
  Place* const place = AnyPlace();
  if (place == nullptr) return;
  world_->nobody_lost = false;
  place->Kill();
}

void Cluster::LosePod() {
  Place* const place = AnyPlace();
  if (place == nullptr) return;
  world_->nobody_lost = false;
  place->Lose();
}

void Cluster::Scale() {
  const size_t run = runs_.size() - 1;
  runs_[run].parallelism = AnyParallelism();
  for (size_t i = places_.size(); i-- > 0 && Count(run, false) > runs_[run].parallelism;) {
    if (run_of_[i] == run) places_[i]->AskToLeave();
  }
  Fill(run);
}

void Cluster::Delete(size_t run) {
  runs_[run].deleted = true;
  const TimePoint last = world_->simulation.now().PlusMs(world_->setting.leave_ms + kKilledAfterMs);
  for (size_t i = 0; i < places_.size(); ++i) {
    if (run_of_[i] != run || !places_[i]->alive()) continue;
    world_->nobody_lost = false;
    places_[i]->AskToLeave();
    world_->simulation.At(last, [place = places_[i]] { place->Kill(); });
  }
}

void Cluster::DeleteJob() {
  const size_t run = runs_.size() - 1;
  Delete(run);
  world_->simulation.AfterUs(world_->random().Skewed(1000, 5000000), [this, run] {
    if (run + 1 == runs_.size()) NewRun();
  });
}

void Cluster::Settle() {
  settles_ = true;
  const size_t run = runs_.size() - 1;
  if (!runs_[run].deleted && !runs_[run].succeeded) return;
  if (world_->setting.launched) return;
  Delete(run);
  NewRun();
}

bool Cluster::Done() const {
  return settles_ && runs_.back().succeeded &&
         std::none_of(places_.begin(), places_.end(), [](const Place* place) { return place->alive(); });
}

void Cluster::StartLatePod() {
  late_ = NewPlace(runs_.size() - 1);
  late_->Start([this](absl::optional<int> code) { Ended(runs_.size() - 1, late_, code); });
}

std::string Cluster::Describe() const {
  std::string text =
      absl::StrCat("elastic from ", world_->setting.elastic.min_size, " to ", world_->setting.elastic.max_size,
                   ", size ", world_->setting.workers, ", run ", runs_.size(), " wants ", runs_.back().parallelism,
                   runs_.back().succeeded ? ", has succeeded" : "");
  for (const Place* place : places_) {
    if (place->alive()) absl::StrAppend(&text, "\n  ", place->Describe());
  }
  return text;
}

}  // namespace farandole::sim
