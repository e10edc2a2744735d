#ifndef FARANDOLE_TESTS_SIM_CHECKER_H_
#define FARANDOLE_TESTS_SIM_CHECKER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "proto/messages.h"
#include "tests/sim/execution_checker.h"
#include "tests/sim/submission.h"
#include "tests/sim/verdict.h"

namespace farandole::sim {

// Looks at a run from outside, with knowledge that no part of it has, and holds it against the promises of the design:
// membership, I3 and I5 of docs/replay.md, and what the script is told.
class Checker {
 public:
  Checker(Verdict* verdict, ExecutionChecker* execution) : verdict_(verdict), execution_(execution) {}

  void Fail(const std::string& what) { verdict_->Fail(what); }

  // The controller has opened it.
  void Opened(const GenerationId& id);
  TimePoint opened(const GenerationId& id) { return Find(id).opened; }
  // Why it did something.
  void ControllerSaid(const std::string& reason);

  // What happens at a member. Joined: view identical for all, one generation per incarnation.
  void Joined(const View& view, Incarnation worker);
  void Submitted(const GenerationId& id, Rank rank, const Submission::Many& submissions);
  // An item took effect: indices rise.
  void Taken(const GenerationId& id, Rank rank, uint64_t item);
  // By an item (index > 0) or by the end of everything (0): exactly once, and as the program says. Said before they
  // are finished.
  void Answered(const GenerationId& id, Rank rank, const Submission::Many& submissions,
                const worker::completion::Result& result, uint64_t item);
  void AnsweredTwice(const GenerationId& id, Rank rank, const Submission& submission);
  // Has done all of its program and was let go.
  void Finished(const GenerationId& id, Rank rank);

  // How many generations all members have finished.
  uint64_t finished() const { return finished_; }
  // A generation that opened at `since` or later and that all members finished.
  bool AnyFinished(TimePoint since) const;
  // What can only be said of whole generations.
  void AtEnd();

 private:
  using Namer = std::function<std::string()>;
  struct MemberRecord {
    uint64_t last_item = 0;
    bool finished = false;
  };
  struct Mismatch {
    std::string text;
    uint64_t label = 0;
    std::set<int32_t> told;
  };
  struct Generation {
    TimePoint opened = TimePoint::Infinite();
    std::string view;
    std::vector<MemberRecord> members;
    std::map<uint64_t, std::set<int32_t>> disputed;  // ranks that submitted what must not be executed, by label
    std::map<uint64_t, Mismatch> mismatches;         // by item
    bool Finished() const;
  };
  Generation& Find(const GenerationId& id);
  void CheckAnswer(Generation* g, Rank rank, const Submission& submission, const worker::completion::Result& result,
                   uint64_t item, const Namer& who);

  Verdict* const verdict_;
  ExecutionChecker* const execution_;
  std::map<std::pair<uint64_t, uint64_t>, Generation> generations_;
  GenerationId found_id_;
  Generation* found_ = nullptr;
  std::map<Incarnation, GenerationId> joined_;
  uint64_t finished_ = 0;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_CHECKER_H_
