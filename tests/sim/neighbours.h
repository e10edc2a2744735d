#ifndef FARANDOLE_TESTS_SIM_NEIGHBOURS_H_
#define FARANDOLE_TESTS_SIM_NEIGHBOURS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "controller/hub/hub.h"
#include "tests/sim/world.h"

namespace farandole::sim {

// Other jobs of the same hub, each of two workers behind one agent, that come, live for a while and leave, die or fall
// silent. They stand beside the controller: nothing of theirs is on its way. Checks that each is served in time and
// hears of itself only. Their chance is their own, so that the job that is looked at runs as without them.
class Neighbours {
 public:
  // For one life of a controller; `process` is its process.
  Neighbours(World* world, Process* process, controller::hub::Hub* hub);
  ~Neighbours();

  // The hub says "job NAME: ..." of one of them.
  void Logged(absl::string_view line);
  // What is late from here on may have been put off.
  void StoodStill();

 private:
  struct Neighbour;
  class Link;

  void Join(Neighbour* neighbour);
  void Live(Neighbour* neighbour, int64_t leases);
  void Leave(Neighbour* neighbour);
  void Die(Neighbour* neighbour);
  void FallSilent(Neighbour* neighbour);
  void Disconnect(Neighbour* neighbour, const char* what);
  void Say(const Neighbour& neighbour, const AgentUp& message);
  void Fail(const Neighbour& neighbour, const std::string& what);

  World* const world_;
  Process* const process_;
  controller::hub::Hub* const hub_;
  Random random_;
  std::vector<std::unique_ptr<Neighbour>> all_;
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_NEIGHBOURS_H_
