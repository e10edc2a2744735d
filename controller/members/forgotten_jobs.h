#ifndef FARANDOLE_CONTROLLER_MEMBERS_FORGOTTEN_JOBS_H_
#define FARANDOLE_CONTROLLER_MEMBERS_FORGOTTEN_JOBS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "controller/types/job_config.h"

namespace farandole::controller::members {

// What is known of a job that is forgotten, for when it comes back. Zeros: nothing.
struct ForgottenJob {
  // It must not use a number again, since its workers' hosts may still hold what belongs to it.
  uint64_t last_generation = 0;
  // Of the controller for this job, if that is not the controller's own.
  uint64_t incarnation = 0;
  // How the last generation ended, if it failed: a host that comes back late learns why its workers lost their ranks.
  EndedGeneration ended;
  FinishedRun finished = {};
};

// The jobs that were forgotten last; of earlier ones nothing is left on any host. The namespace that has most of them
// makes room, so that one with many names costs nothing to those that have fewer. Pure.
class ForgottenJobs {
 public:
  // Far more than come and go while a host still holds anything of one.
  static constexpr size_t kJobsMax = 16384;
  // A reason is for people; a longer one is cut.
  static constexpr size_t kReasonBytesMax = 1024;

  explicit ForgottenJobs(size_t jobs_max = kJobsMax) : jobs_max_(jobs_max) {}

  // What `job` says nothing about stays as it was known: zeros, and an end without a number or a reason.
  void Keep(const std::string& name, ForgottenJob job);
  ForgottenJob Find(const std::string& name) const;

 private:
  using Entry = std::pair<std::string, ForgottenJob>;

  const size_t jobs_max_;
  void MakeRoom();

  // By namespace; in each the one that was kept longest ago first. None is empty.
  std::map<std::string, std::list<Entry>, std::less<>> by_age_;
  absl::flat_hash_map<std::string, std::list<Entry>::iterator> by_name_;
};

}  // namespace farandole::controller::members

#endif  // FARANDOLE_CONTROLLER_MEMBERS_FORGOTTEN_JOBS_H_
