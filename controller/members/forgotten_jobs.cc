#include "controller/members/forgotten_jobs.h"

#include <algorithm>

#include "base/cut_text.h"
#include "base/job_name.h"

namespace farandole::controller::members {

ForgottenJob ForgottenJobs::Find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? ForgottenJob() : it->second->second;
}

void ForgottenJobs::MakeRoom() {
  const auto most = std::max_element(by_age_.begin(), by_age_.end(),
                                     [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  by_name_.erase(most->second.front().first);
  most->second.pop_front();
  if (most->second.empty()) by_age_.erase(most);
}

void ForgottenJobs::Keep(const std::string& name, ForgottenJob job) {
  const bool ended = job.ended.id.number != 0 && !job.ended.reason.empty();
  const bool finished = !job.finished.run.empty();
  if (jobs_max_ == 0 || (!ended && !finished && job.last_generation == 0 && job.incarnation == 0)) return;
  const auto found = by_name_.find(name);
  if (found == by_name_.end() && by_name_.size() == jobs_max_) MakeRoom();
  std::list<Entry>& of_namespace = by_age_[std::string(NamespaceOf(name))];
  if (found == by_name_.end()) {
    by_name_[name] = of_namespace.insert(of_namespace.end(), {name, {}});
  } else {
    of_namespace.splice(of_namespace.end(), of_namespace, found->second);
  }
  ForgottenJob& kept = of_namespace.back().second;
  if (job.last_generation != 0) kept.last_generation = job.last_generation;
  if (job.incarnation != 0) kept.incarnation = job.incarnation;
  if (finished) kept.finished = {job.finished.run, std::string(CutText(job.finished.text, kReasonBytesMax))};
  if (ended) kept.ended = {job.ended.id, std::string(CutText(job.ended.reason, kReasonBytesMax))};
}

}  // namespace farandole::controller::members
