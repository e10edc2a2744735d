#ifndef FARANDOLE_TESTS_SIM_LOG_CHECKER_H_
#define FARANDOLE_TESTS_SIM_LOG_CHECKER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "proto/messages.h"
#include "tests/sim/execution_checker.h"
#include "tests/sim/verdict.h"

namespace farandole::sim {

// The controllers' log from outside, held against I5 to I8 of docs/replay.md: an index means one thing whichever
// incarnation sends it, phases rise with their markers, an instance is entered or withdrawn once, a replay begins with
// nothing open and nobody joined.
class LogChecker {
 public:
  LogChecker(Verdict* verdict, ExecutionChecker* execution) : verdict_(verdict), execution_(execution) {}

  // The controller puts it on the way to somebody, perhaps again.
  void Sent(const Item& item);
  // It reads what a worker says, of which joins matter here.
  void Read(const FromWorker& said);
  // Withdraw items of this generation before which every member had `since_resume_ms` to submit.
  int withdrawals(const GenerationId& id) { return Find(id).withdrawals; }

 private:
  using InstanceKey = std::pair<uint64_t, uint64_t>;  // anchor, seq
  struct Generation {
    std::map<uint64_t, std::string> items;
    std::vector<uint64_t> markers;  // items that end a phase
    std::set<InstanceKey> open;
    std::set<InstanceKey> closed;
    std::set<Incarnation> joined;
    uint64_t last_join_done = 0;
    int withdrawals = 0;
  };
  Generation& Find(const GenerationId& id) { return generations_[{id.controller_incarnation, id.number}]; }
  void First(const Item& item, Generation* g);
  void Close(const Item& item, Generation* g, InstanceKey instance);

  Verdict* const verdict_;
  ExecutionChecker* const execution_;
  std::map<std::pair<uint64_t, uint64_t>, Generation> generations_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_LOG_CHECKER_H_
