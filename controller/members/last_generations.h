#ifndef FARANDOLE_CONTROLLER_MEMBERS_LAST_GENERATIONS_H_
#define FARANDOLE_CONTROLLER_MEMBERS_LAST_GENERATIONS_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

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
  absl::flat_hash_map<std::string, uint64_t> numbers_;
  std::deque<std::string> order_;  // the jobs of `numbers_`, in the order in which they came
};

}  // namespace farandole::controller::members

#endif  // FARANDOLE_CONTROLLER_MEMBERS_LAST_GENERATIONS_H_
