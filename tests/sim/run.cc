#include "tests/sim/run.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "tests/sim/agent.h"
#include "tests/sim/cluster.h"
#include "tests/sim/controller.h"
#include "tests/sim/faults.h"
#include "tests/sim/trainer.h"
#include "tests/sim/training_process.h"
#include "tests/sim/world.h"

namespace farandole::sim {
namespace {

// After the last fault: the time after which a silent host is given up, start timeouts, two long pauses, and some.
constexpr int64_t kLivenessMs = 240000;
// A run that goes round in circles.
constexpr uint64_t kEventsMax = 3000000;
// A pod that comes when all is done ends so soon.
constexpr int64_t kLateMs = 10000;

Setting Draw(uint64_t seed) {
  Random own(~seed);
  Random* const random = &own;
  Setting s;
  s.workers = static_cast<int>(random->Skewed(1, 8));
  if (s.workers == 1 && random->Percent(80)) s.workers = 2;
  s.agents = static_cast<int>(random->Between(1, std::min(3, s.workers)));
  s.free_ranks = random->Percent(20);
  s.data_plane_notices = random->Percent(70);
  s.local = {2, random->Skewed(10, 1000)};
  s.network = {20, random->Percent(50) ? random->Skewed(100, 5000) : random->Between(10000, 100000)};
  if (random->Percent(30)) s.unstable_items_max = static_cast<uint32_t>(random->Between(1, 16));
  if (random->Percent(20)) s.fusion_threshold_bytes = random->Percent(50) ? 0 : 1000;
  s.start_timeout_ms = random->Skewed(500, 30000);
  s.cache_capacity = random->Percent(30) ? 0 : static_cast<uint32_t>(random->Skewed(1, 1024));
  s.launcher_store = random->Percent(70);
  s.window.host = random->Percent(50) ? 1 : 2;
  s.window.final = random->Percent(50) ? s.window.host : random->Between(1, 32);
  return s;
}

Setting DrawFixed(uint64_t seed) {
  Setting s = Draw(seed);
  Random random(seed ^ (uint64_t{1} << 61));
  // One leaves, one has joined, one goes on.
  if (s.workers < 3 && random.Percent(20)) s.workers = static_cast<int>(random.Between(3, 5));
  return s;
}

Setting DrawElastic(uint64_t seed) {
  Setting s = Draw(seed);
  Random random(seed ^ (uint64_t{1} << 62));
  s.launched = random.Percent(30);
  s.pod_workers = s.launched || random.Percent(80) ? 1 : 2;
  s.elastic.min_size = static_cast<int32_t>(random.Between(1, 3));
  s.elastic.max_size = s.elastic.min_size + static_cast<int32_t>(random.Between(0, 3));
  s.workers = static_cast<int>(random.Between(s.elastic.min_size, s.elastic.max_size));
  s.start_timeout_ms = random.Skewed(3000, 30000);
  s.elastic.settle_ms = static_cast<uint32_t>(s.start_timeout_ms);
  s.leave_ms = random.Skewed(1000, 25000);
  return s;
}

void Begin(World* world, Controller* controller) {
  world->data_plane.set_notices(world->setting.data_plane_notices);
  world->controller = controller;
  controller->Start();
}

void BeginHosts(World* world) {
  world->stores.resize(world->setting.agents);
  for (int host = 0; host < world->setting.agents; ++host) {
    world->agents.push_back(world->simulation.Keep(std::make_shared<Agent>(world, host, 0)));
    world->agents.back()->Start();
  }
}

void BeginFixed(World* world) {
  BeginHosts(world);
  world->trainers.resize(world->setting.workers);
  for (int place = 0; place < world->setting.workers; ++place) Trainer::Spawn(world, place);
}

// I8: scripts in step end without Withdraw, where nothing delays anybody for long and all ranks agree. A log that is
// soon full waits for acknowledgements, which are in no hurry.
void CheckWithdrawals(World* world) {
  if (world->setting.unstable_items_max < 100) return;
  for (const auto& [key, program] : world->programs) {
    const Shape& shape = program->shape();
    const bool plain =
        shape.enters_all() && shape.pauses_before < 0 && shape.dawdler < 0 && shape.refused_while_joined < 0;
    const int count = world->log.withdrawals({key.second, key.first});
    if (plain && count > 0) world->checker.Fail(absl::StrCat("I8: ", count, " withdrawals though all are in step"));
  }
}

// False, and a violation, if there is nothing more to wait for.
bool Step(World* world, TimePoint deadline, const char* what) {
  if (world->simulation.now() <= deadline && world->simulation.events() <= kEventsMax && world->simulation.Step()) {
    return world->verdict.violation().empty();
  }
  std::string text =
      absl::StrCat(what, " in ", kLivenessMs / 1000, " s after the last fault; ", world->controller->Describe());
  if (world->cluster != nullptr) {
    absl::StrAppend(&text, "\n  ", world->cluster->Describe());
  } else {
    for (const TrainingProcess* trainer : world->trainers) {
      if (trainer != nullptr) absl::StrAppend(&text, "\n  ", trainer->Describe());
    }
  }
  world->checker.Fail(text);
  return false;
}

// A run finishes, all pods end, and so does one that comes later.
void LiveElastic(World* world, Cluster* cluster, TimePoint faults_end) {
  world->simulation.At(faults_end, [cluster] { cluster->Settle(); });
  const TimePoint deadline = world->quiet_from.PlusMs(kLivenessMs);
  while (!cluster->Done()) {
    if (!Step(world, deadline, "no run was finished")) return;
  }
  if (world->setting.launched) return;
  const TimePoint finished = world->simulation.now();
  cluster->StartLatePod();
  while (!cluster->LatePodDone()) {
    if (!Step(world, finished.PlusMs(kLateMs), "a late pod has not ended")) return;
  }
}

void Live(World* world) {
  const TimePoint deadline = world->quiet_from.PlusMs(kLivenessMs);
  uint64_t finished = 0;
  while (world->verdict.violation().empty()) {
    if (world->checker.finished() != finished) {
      finished = world->checker.finished();
      if (world->checker.AnyFinished(world->quiet_from)) return world->checker.AtEnd();
    }
    if (!Step(world, deadline, "nothing was finished")) return;
  }
}

RunResult ResultOf(const World& world) {
  RunResult result;
  result.violation = world.verdict.violation();
  result.digest = world.simulation.digest();
  result.events = world.simulation.events();
  result.seconds = static_cast<double>(world.simulation.now().ns()) / 1e9 - 1;
  return result;
}

}  // namespace

bool IsElastic(uint64_t seed) { return seed % 4 == 3; }

RunResult RunScale(const Scale& scale, Coverage* coverage) {
  auto shape = std::make_shared<Shape>();
  shape->uniform = true;
  shape->size = scale.ranks;
  shape->steps = scale.steps;
  shape->tensors.resize(scale.tensors + 1);
  shape->tensors.back().every = 200;
  shape->tensors.back().offset = 199;
  Setting setting;
  setting.workers = scale.ranks;
  setting.agents = (scale.ranks + 7) / 8;
  setting.local = {2, 20};
  setting.network = {20, 200};
  setting.shape = std::move(shape);
  setting.cache_capacity = 1024;
  World world(1, setting, Bugs(), false, coverage);
  Controller controller(&world);
  Faults faults(&world);
  Begin(&world, &controller);
  BeginFixed(&world);
  // As if nothing had happened: whatever ends badly is held against them.
  world.quiet_from = world.simulation.now();
  int faulted_at = 0;
  while (world.verdict.violation().empty() && world.checker.finished() == 0) {
    if (!world.simulation.Step()) world.verdict.Fail("nothing happens any more");
    const int step = world.trainers[0]->step();
    if (step < faulted_at + 20) continue;
    faulted_at = step;
    faults.Survivable(step / 20);
  }
  return ResultOf(world);
}

RunResult RunSeed(uint64_t seed, const Bugs& bugs, bool trace, Coverage* coverage) {
  World world(seed, IsElastic(seed) ? DrawElastic(seed) : DrawFixed(seed), bugs, trace, coverage);
  Controller controller(&world);
  Faults faults(&world);
  Begin(&world, &controller);
  if (IsElastic(seed)) {
    Cluster cluster(&world);
    world.cluster = &cluster;
    if (world.setting.launched) BeginHosts(&world);
    cluster.Start();
    faults.Start();
    LiveElastic(&world, &cluster, faults.until());
  } else {
    BeginFixed(&world);
    faults.Start();
    Live(&world);
    if (faults.none()) CheckWithdrawals(&world);
  }
  RunResult result = ResultOf(world);
  if (!result.violation.empty()) {
    absl::StrAppend(&result.violation, "\n  again: bazel run //tests/sim -- --seed=", seed, " --trace");
  }
  return result;
}

}  // namespace farandole::sim
