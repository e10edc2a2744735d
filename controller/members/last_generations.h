#ifndef FARANDOLE_CONTROLLER_MEMBERS_LAST_GENERATIONS_H_
#define FARANDOLE_CONTROLLER_MEMBERS_LAST_GENERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace farandole::controller::members {

// The newest generation of each job that is forgotten: one that comes back must not use a number again, since its
// workers' hosts may still hold what belongs to it. Pure. Knows the jobs that were forgotten last; of earlier ones
// nothing is left on any host.
class LastGenerations {
 public:
  explicit LastGenerations(size_t jobs_max) : jobs_max_(jobs_max) {}

  // 0: none.
  uint64_t Of(const std::string& job) const;
  void Keep(const std::string& job, uint64_t number);

 private:
  const size_t jobs_max_;
  std::list<std::pair<std::string, uint64_t>> by_age_;  // the one that was kept longest ago first
  absl::flat_hash_map<std::string, std::list<std::pair<std::string, uint64_t>>::iterator> places_;  // by job
};

}  // namespace farandole::controller::members

#endif  // FARANDOLE_CONTROLLER_MEMBERS_LAST_GENERATIONS_H_
