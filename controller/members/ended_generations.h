#ifndef FARANDOLE_CONTROLLER_MEMBERS_ENDED_GENERATIONS_H_
#define FARANDOLE_CONTROLLER_MEMBERS_ENDED_GENERATIONS_H_

#include <deque>
#include <string>
#include <utility>

#include "controller/types/job_config.h"

namespace farandole::controller::members {

// How the last generations of jobs ended that are forgotten: a host that comes back late learns why its workers lost
// their places. Keeps the last kMax. Pure.
class EndedGenerations {
 public:
  static constexpr size_t kMax = 256;

  // Nothing is kept of number 0, nor without a reason: what was known stays.
  void Keep(const std::string& job, EndedGeneration ended);
  // Number 0: nothing is known.
  EndedGeneration Find(const std::string& job) const;

 private:
  std::deque<std::pair<std::string, EndedGeneration>> by_age_;  // the eldest first; each job once
};

}  // namespace farandole::controller::members

#endif  // FARANDOLE_CONTROLLER_MEMBERS_ENDED_GENERATIONS_H_
