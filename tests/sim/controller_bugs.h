#ifndef FARANDOLE_TESTS_SIM_CONTROLLER_BUGS_H_
#define FARANDOLE_TESTS_SIM_CONTROLLER_BUGS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "proto/messages.h"
#include "tests/sim/bugs.h"
#include "tests/sim/set_alias.h"

namespace farandole::sim {

// The planted bugs of the controller that can be had by changing what it hears or says. One life of it.
class ControllerBugs {
 public:
  explicit ControllerBugs(const Bugs* bugs) : bugs_(bugs) {}

  // Whom it believes to have connected.
  void Opened(AgentHello* hello) const;
  // What it hears instead of this; more may follow.
  std::vector<AgentUp> Heard(AgentUp message);
  // When it believes to hear it.
  TimePoint When(const std::string& agent, const AgentUp& message, TimePoint now);
  // What it says instead of this.
  void Says(ToWorkers* down);

 private:
  void ChangeElastic(AgentUp* message) const;
  void Forge(const FromWorker& said, std::vector<AgentUp>* all);
  void RememberMembers(const View& view);

  const Bugs* const bugs_;
  SetAlias sets_;
  std::map<std::string, TimePoint> leases_;
  std::vector<Incarnation> members_;
  std::set<uint32_t> halts_forged_;     // by phase
  std::map<uint64_t, uint32_t> slots_;  // by item and position: what it was changed to
  uint32_t last_slot_ = 0;
  int definitions_ = 0;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_CONTROLLER_BUGS_H_
