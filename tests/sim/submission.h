#ifndef FARANDOLE_TESTS_SIM_SUBMISSION_H_
#define FARANDOLE_TESTS_SIM_SUBMISSION_H_

#include <cstdint>
#include <string>
#include <utility>

#include "worker/operation.h"

namespace farandole::sim {

// One call of the script's, with what the checkers want to know about it.
class Submission : public Operation {
 public:
  Submission(Request request, uint64_t ordinal, int step, bool mismatches)
      : Operation(std::move(request), nullptr, nullptr), ordinal(ordinal), step(step), mismatches(mismatches) {}
  // The how-many-th of this name by this member in this generation, from 1.
  const uint64_t ordinal;
  const int step;
  // By the program, some rank submits this one differently.
  const bool mismatches;

  static const Submission& Of(const Operation& operation) { return static_cast<const Submission&>(operation); }
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_SUBMISSION_H_
