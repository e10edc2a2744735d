#include "controller/members/forgotten_jobs.h"

#include "base/cut_text.h"

namespace farandole::controller::members {

ForgottenJob ForgottenJobs::Find(const std::string& name) const {
  const auto it = by_name_.find(name);
  return it == by_name_.end() ? ForgottenJob() : it->second->second;
}

void ForgottenJobs::Keep(const std::string& name, ForgottenJob job) {
  const bool ended = job.ended.id.number != 0 && !job.ended.reason.empty();
  const bool finished = !job.finished.run.empty();
  if (jobs_max_ == 0 || (!ended && !finished && job.last_generation == 0 && job.incarnation == 0)) return;
  const auto found = by_name_.find(name);
  if (found == by_name_.end() && by_age_.size() == jobs_max_) {
    by_name_.erase(by_age_.front().first);
    by_age_.pop_front();
  }
  if (found == by_name_.end()) {
    by_name_[name] = by_age_.insert(by_age_.end(), {name, {}});
  } else {
    by_age_.splice(by_age_.end(), by_age_, found->second);
  }
  ForgottenJob& kept = by_age_.back().second;
  if (job.last_generation != 0) kept.last_generation = job.last_generation;
  if (job.incarnation != 0) kept.incarnation = job.incarnation;
  if (finished) kept.finished = {job.finished.run, std::string(CutText(job.finished.text, kReasonBytesMax))};
  if (ended) kept.ended = {job.ended.id, std::string(CutText(job.ended.reason, kReasonBytesMax))};
}

}  // namespace farandole::controller::members
