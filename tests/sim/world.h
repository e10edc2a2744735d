#ifndef FARANDOLE_TESTS_SIM_WORLD_H_
#define FARANDOLE_TESTS_SIM_WORLD_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "agent/processes/worker_memory.h"
#include "proto/messages.h"
#include "tests/sim/bugs.h"
#include "tests/sim/carried.h"
#include "tests/sim/checker.h"
#include "tests/sim/coverage.h"
#include "tests/sim/data_plane.h"
#include "tests/sim/elastic_checker.h"
#include "tests/sim/execution_checker.h"
#include "tests/sim/log_checker.h"
#include "tests/sim/program.h"
#include "tests/sim/simulation.h"
#include "tests/sim/stream.h"
#include "tests/sim/verdict.h"
#include "worker/session/window.h"

namespace farandole::sim {

// What the controller believed when it sent a message; known to the checkers only.
struct Origin {
  uint64_t controller_incarnation = 0;
  uint64_t session = 0;
};

struct FromController {
  AgentDown message;
  std::vector<Origin> origins;  // one for each addressee of ToWorkers
};
struct FromAgent {
  LocalDown message;
  Origin origin;
};
using ControllerStream = Stream<AgentUp, FromController>;
using LocalStream = Stream<LocalUp, FromAgent>;

// Drawn from the seed: what is alike throughout a run.
struct Setting {
  int workers = 1;
  int agents = 1;
  // Workers leave the choice of their ranks to the controller.
  bool free_ranks = false;
  // Members of a collective notice that one of them is gone, as TCP does, and not only by the controller's word.
  bool data_plane_notices = true;
  worker::session::Window window;
  Delay local;
  Delay network;
  uint32_t unstable_items_max = 4096;
  int64_t fusion_threshold_bytes = 1 << 20;
  int64_t start_timeout_ms = 30000;
  // Somebody on each host keeps what the next agent has to know when one is killed.
  bool launcher_store = true;
  uint32_t cache_capacity = 0;
  // min_size 0: the job is not elastic. Otherwise a Cluster makes its pods.
  Elastic elastic;
  uint32_t elastic_timeout_ms = 120000;
  // farandole run drives it, on hosts whose agents may be started again; there are no pods.
  bool launched = false;
  int pod_workers = 1;
  int64_t leave_ms = 0;  // that a pod has to leave
  // What all generations run, instead of what their seeds say.
  std::shared_ptr<const Shape> shape;
};

class Agent;
class Cluster;
class Controller;
class TrainingProcess;

// One run's parts, for each other.
struct World {
  World(uint64_t seed, const Setting& setting, Bugs bugs, bool trace, Coverage* coverage)
      : seed(seed), setting(setting), bugs(bugs), simulation(seed, trace), coverage(coverage) {}
  const uint64_t seed;
  const Setting setting;
  const Bugs bugs;
  Simulation simulation;
  Coverage* const coverage;
  Verdict verdict{&simulation};
  ExecutionChecker execution{&verdict, setting.window};
  LogChecker log{&verdict, &execution, coverage};
  Checker checker{&verdict, &execution};
  ElasticChecker elastic{&verdict, coverage, setting.elastic};
  DataPlane data_plane{&simulation};
  Carried carried;
  // From here on nothing that happened before disturbs: a generation that opens later has to end well.
  TimePoint quiet_from = TimePoint::Infinite();
  // Nothing has happened that may cost a member its place.
  bool nobody_lost = true;
  // Called once when a worker is told to halt.
  std::function<void(const Process*)> on_halt;
  // Called once when a worker is told to take a batch back.
  std::function<void()> on_withdraw;
  // The next one that leaves while it executes something.
  std::function<void(TrainingProcess*)> on_busy_leave;
  Controller* controller = nullptr;
  std::vector<Agent*> agents;                                       // one per host: the one that lives there now
  std::vector<std::vector<agent::processes::WorkerMemory>> stores;  // one per host: what its launcher keeps, in order
  std::map<int, std::set<int64_t>> retired;  // by host: processes that its launcher wants to leave
  // One per place in the job: the process that fills it now. Of an elastic job all that there have been.
  std::vector<TrainingProcess*> trainers;
  Cluster* cluster = nullptr;  // of an elastic job
  int64_t next_pid = 1000;
  uint64_t next_incarnation = 1;

  std::map<std::pair<uint64_t, uint64_t>, std::shared_ptr<const Program>> programs;  // by generation
  std::map<int64_t, Process*> processes;                                             // by pid

  Process* NewProcess() {
    const int64_t pid = next_pid++;
    return processes[pid] = simulation.Keep(std::make_shared<Process>(&simulation, pid));
  }
  Random& random() { return simulation.random(); }
};

}  // namespace farandole::sim

#endif  // FARANDOLE_TESTS_SIM_WORLD_H_
