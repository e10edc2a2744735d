#include "tests/sim/cluster.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"

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
  for (size_t i = 0; i < pods_.size(); ++i) {
    if (run_of_[i] == run && pods_[i]->alive() && (asked || !pods_[i]->asked())) ++count;
  }
  return count;
}

void Cluster::Fill(size_t run) {
  while (!runs_[run].deleted && !runs_[run].succeeded && Count(run, false) < runs_[run].parallelism) AddPod(run);
}

void Cluster::AddPod(size_t run) {
  Pod* const pod = world_->simulation.Keep(std::make_shared<Pod>(world_, runs_[run].work, world_->setting.pod_workers));
  pods_.push_back(pod);
  run_of_.push_back(run);
  world_->simulation.Trace(absl::StrCat("pod h", pod->host(), " of run ", pod->run(), " starts"));
  pod->Start([this, run, pod](absl::optional<int> code) { Ended(run, pod, code); });
}

void Cluster::Ended(size_t run, Pod* pod, absl::optional<int> code) {
  world_->simulation.Trace(
      absl::StrCat("pod h", pod->host(), " ends with ", code ? absl::StrCat("code ", *code) : "no word"));
  world_->coverage->Hit(!code ? "pod ends without a word" : absl::StrCat("pod ends with ", *code));
  if (pod == late_) {
    if (code != 0) world_->checker.Fail("a pod that came after the end of its run has failed");
    return;
  }
  if (code == 0) runs_[run].succeeded = true;
  // A third run is refused until the end of the first is known, which silence may have to tell.
  const bool quiet = world_->quiet_from.PlusMs(run > 1 ? kSilenceMs : 0) <= world_->simulation.now();
  if (quiet && code && code != 0 && !pod->asked() && !runs_[run].succeeded) {
    world_->checker.Fail(absl::StrCat("after all faults pod h", pod->host(), " has failed"));
  }
  world_->simulation.AfterUs(world_->random().Skewed(10000, 10000000), [this, run] { Fill(run); });
}

Pod* Cluster::AnyPod() {
  std::vector<Pod*> living;
  std::copy_if(pods_.begin(), pods_.end(), std::back_inserter(living), [](const Pod* pod) { return pod->alive(); });
  return living.empty() ? nullptr : living[world_->random().Below(living.size())];
}

void Cluster::Evict() {
  Pod* const pod = AnyPod();
  if (pod == nullptr) return;
  pod->AskToLeave();
  const size_t run = run_of_[std::find(pods_.begin(), pods_.end(), pod) - pods_.begin()];
  world_->simulation.AfterUs(world_->random().Skewed(1000, 2000000), [this, run] { Fill(run); });
}

void Cluster::KillPod() {
  Pod* const pod = AnyPod();
  if (pod == nullptr) return;
  world_->nobody_lost = false;
  pod->Kill();
}

void Cluster::LosePod() {
  Pod* const pod = AnyPod();
  if (pod == nullptr) return;
  world_->nobody_lost = false;
  pod->Lose();
}

void Cluster::Scale() {
  const size_t run = runs_.size() - 1;
  runs_[run].parallelism = AnyParallelism();
  for (size_t i = pods_.size(); i-- > 0 && Count(run, false) > runs_[run].parallelism;) {
    if (run_of_[i] == run) pods_[i]->AskToLeave();
  }
  Fill(run);
}

void Cluster::Delete(size_t run) {
  runs_[run].deleted = true;
  const TimePoint last = world_->simulation.now().PlusMs(world_->setting.leave_ms + kKilledAfterMs);
  for (size_t i = 0; i < pods_.size(); ++i) {
    if (run_of_[i] != run || !pods_[i]->alive()) continue;
    world_->nobody_lost = false;
    pods_[i]->AskToLeave();
    world_->simulation.At(last, [pod = pods_[i]] { pod->Kill(); });
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
  Delete(run);
  NewRun();
}

bool Cluster::Done() const {
  return settles_ && runs_.back().succeeded &&
         std::none_of(pods_.begin(), pods_.end(), [](const Pod* pod) { return pod->alive(); });
}

void Cluster::StartLatePod() {
  late_ = world_->simulation.Keep(std::make_shared<Pod>(world_, runs_.back().work, 1));
  pods_.push_back(late_);
  run_of_.push_back(runs_.size() - 1);
  late_->Start([this](absl::optional<int> code) { Ended(runs_.size() - 1, late_, code); });
}

std::string Cluster::Describe() const {
  std::string text =
      absl::StrCat("elastic from ", world_->setting.elastic.min_size, " to ", world_->setting.elastic.max_size,
                   ", size ", world_->setting.workers, ", run ", runs_.size(), " wants ", runs_.back().parallelism,
                   runs_.back().succeeded ? ", has succeeded" : "");
  for (const Pod* pod : pods_) {
    if (pod->alive()) absl::StrAppend(&text, "\n  ", pod->Describe());
  }
  return text;
}

}  // namespace farandole::sim
