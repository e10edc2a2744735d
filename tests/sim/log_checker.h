#ifndef FARANDOLE_TESTS_SIM_LOG_CHECKER_H_
#define FARANDOLE_TESTS_SIM_LOG_CHECKER_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>

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
  // It has read that this worker's join is open.
  void JoinRead(const GenerationId& id, Incarnation worker);
  void HelloRead(const Hello& hello);
  // Withdraw items of this generation before which every member had `since_resume_ms` to submit.
  int withdrawals(const GenerationId& id) { return Find(id).withdrawals; }

 private:
  using InstanceKey = std::pair<uint64_t, uint64_t>;  // anchor, seq
  struct Generation {
    std::map<uint64_t, std::string> items;
    uint32_t phase = 0;
    uint64_t last = 0;
    std::set<InstanceKey> open;
    std::set<InstanceKey> closed;
    std::set<Incarnation> joined;
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
