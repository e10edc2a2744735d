#ifndef FARANDOLE_TESTS_SIM_LOG_CHECKER_H_
#define FARANDOLE_TESTS_SIM_LOG_CHECKER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/messages.h"
#include "tests/sim/coverage.h"
#include "tests/sim/execution_checker.h"
#include "tests/sim/verdict.h"

namespace farandole::sim {

// The controllers' log from outside, held against I5 to I8 and I11 of docs/replay.md: an index means one thing
// whichever incarnation sends it, phases rise with their markers, an instance is entered or withdrawn once, neither a
// final one nor what is kept for one is ever withdrawn, a replay begins with nothing open and nobody joined.
class LogChecker {
 public:
  LogChecker(Verdict* verdict, ExecutionChecker* execution, Coverage* coverage)
      : verdict_(verdict), execution_(execution), coverage_(coverage) {}

  void Opened(const View& view);
  // A controller starts again. Items that reached nobody, or only such as have left since, are forgotten with the one
  // that appended them: their indices may come to mean something else (rule C9, step 2).
  void Restarted();
  // A worker is done with shutdown().
  void Left(const GenerationId& id, Incarnation worker) { Find(id).left.insert(worker); }
  // The controller puts it on the way to somebody, perhaps again.
  void Sent(const Item& item);
  // Before the controller hears what a worker says: how far that one is.
  void ReadProgress(const FromWorker& said);
  // Afterwards: joins. A replay may have begun between two requests of one message.
  void ReadJoins(const FromWorker& said);
  // Withdraw items of this generation before which every member had `since_resume_ms` to submit.
  int withdrawals(const GenerationId& id) { return Find(id).withdrawals; }

 private:
  using InstanceKey = std::pair<uint64_t, uint64_t>;  // anchor, seq
  struct Generation {
    std::map<uint64_t, std::string> items;
    std::vector<uint64_t> markers;             // items that end a phase
    std::map<InstanceKey, uint64_t> opened;    // by which item
    std::map<InstanceKey, uint64_t> open;      // the same, of those that are not closed
    std::map<InstanceKey, uint64_t> closed;    // by which item
    std::map<Incarnation, uint64_t> received;  // by member that has not left: through which item
    std::map<uint32_t, uint64_t> removed;      // process sets, with the item
    std::map<uint64_t, Period> periods;        // by Replay item
    std::map<InstanceKey, std::set<Rank>> begun_by;
    std::set<Incarnation> joined;
    uint64_t last_join_done = 0;
    uint64_t join_done_before = 0;  // what is being read
    int withdrawals = 0;
    std::map<Incarnation, uint64_t> told;  // by worker: through which item it has received all
    std::set<Incarnation> left;            // by shutdown()
    bool restarted = false;
    bool members_known = false;  // `received` has had all of them
  };
  Generation& Find(const GenerationId& id) { return generations_[{id.controller_incarnation, id.number}]; }
  void ForgetUnreached(const GenerationId& id, Generation* g);
  void First(const Item& item, Generation* g);
  void Changed(const Item& item, const SetChanged& changed, Generation* g);
  void Received(const GenerationId& id, Incarnation worker, uint64_t through);
  void Close(const Item& item, Generation* g, InstanceKey instance);
  bool IsFinal(const Generation& g, InstanceKey instance) const;
  void Withdrawn(const Item& item, const Withdraw& withdraw, Generation* g);
  void CheckBehind(const Item& item, const Generation& g, InstanceKey withdrawn);

  Verdict* const verdict_;
  ExecutionChecker* const execution_;
  Coverage* const coverage_;
  std::map<std::pair<uint64_t, uint64_t>, Generation> generations_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_LOG_CHECKER_H_
