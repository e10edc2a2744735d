#ifndef FARANDOLE_TESTS_SIM_SUBMISSION_H_
#define FARANDOLE_TESTS_SIM_SUBMISSION_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "worker/session/operation.h"

namespace farandole::sim {

// One call of the script's, with what the checkers want to know about it.
class Submission : public worker::session::Operation {
 public:
  Submission(std::shared_ptr<const Request> request, uint64_t label, int step, int set, bool mismatches)
      : worker::session::Operation(std::move(request), nullptr, nullptr),
        label(label),
        step(step),
        script_set(static_cast<int16_t>(set)),
        mismatches(mismatches) {}
  // Equal at all ranks for the calls that belong together, and for no others of the generation.
  const uint64_t label;
  const int32_t step;
  const int16_t script_set;
  // By the program, this one must not be executed: some rank submits it differently, or has joined.
  const bool mismatches;

  using Many = std::vector<std::shared_ptr<worker::session::Operation>>;  // all of them are Submissions; null: zeros of
                                                                          // who has joined

  // Soon all of them are looked at; what thousands of ranks have submitted is in no cache.
  static void Prefetch(const Many& submissions) {
    for (const auto& submission : submissions) {
      if (submission != nullptr) __builtin_prefetch(&Of(*submission).label);
    }
  }

  // The same, for those that are about to be destroyed.
  static void PrefetchAll(const Many& submissions) {
    for (const auto& submission : submissions) {
      __builtin_prefetch(&Of(*submission).label);
      __builtin_prefetch(submission.get());
    }
  }

  static const Submission& Of(const worker::session::Operation& operation) {
    return static_cast<const Submission&>(operation);
  }
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_SUBMISSION_H_
