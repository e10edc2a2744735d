// Costs of the pure Job: one small tensor announced by all ranks, up to the batch for all.
//   bazel run //controller:job_benchmark

#include <benchmark/benchmark.h>

#include <string>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/job/job.h"
#include "proto/codec/codec.h"
#include "proto/version.h"

namespace farandole::controller::job {
namespace {

const TimePoint kNow(1000);

Incarnation WorkerOf(int rank) { return Incarnation(rank + 1); }
std::string AgentOf(int rank, int per_agent) { return absl::StrCat("agent", rank / per_agent); }

void Gather(Job* job, int ranks, int per_agent) {
  for (int r = 0; r < ranks; r += per_agent) job->AgentConnected({AgentOf(r, per_agent), "h", kVersion}, kNow);
  for (int r = 0; r < ranks; ++r) {
    Hello hello;
    hello.session = 1;
    hello.worker_incarnation = WorkerOf(r);
    hello.pid = r + 1;
    hello.version = kVersion;
    hello.rank = Rank(r);
    hello.size = ranks;
    job->AgentSaid(AgentOf(r, per_agent), FromWorker{WorkerOf(r), hello}, kNow);
  }
}

// Ranks, ranks per agent, tensors per announcement; with the codec on both sides, as in the server.
void BM_Round(benchmark::State& state) {
  const int ranks = static_cast<int>(state.range(0));
  const int per_agent = static_cast<int>(state.range(1));
  Job job("bench", JobConfig{});
  Gather(&job, ranks, per_agent);
  std::vector<std::string> agents;
  for (int r = 0; r < ranks; ++r) agents.push_back(AgentOf(r, per_agent));
  Announce announce;
  announce.generation = {1, 0};
  for (int i = 0; i < state.range(2); ++i) {
    announce.requests.push_back(
        {absl::StrCat("allreduce.layer", i, ".weight"), {OpKind::kAllreduce, DataType::kFloat32, {64, 3, 7, 7}}});
  }
  // One string per rank for the next 64 rounds; Stable comes in between, so that its cost is part of the figure.
  constexpr int kRounds = 64;
  uint64_t items = 0;
  std::vector<std::string> script;
  int next = 0;
  for (auto _ : state) {
    if (next == static_cast<int>(script.size())) {
      state.PauseTiming();
      script.clear();
      next = 0;
      for (int round = 0; round < kRounds; ++round, ++items) {
        announce.received_through = announce.completed_through = items;
        for (int r = 0; r < ranks; ++r) script.push_back(Encode(AgentUp(FromWorker{WorkerOf(r), announce})));
      }
      state.ResumeTiming();
    }
    for (int r = 0; r < ranks; ++r, ++next) {
      const auto up = DecodeAgentUp(script[next]);
      const Actions actions = job.AgentSaid(agents[r], *up, kNow);
      for (const Send& send : actions.sends) {
        const std::string body = Encode(std::get<WorkerDown>(send.message));
        for (const Route& to : *send.to) benchmark::DoNotOptimize(EncodeToWorkersHead(to.workers, body.size()));
      }
    }
  }
  state.SetItemsProcessed(state.iterations() * ranks);
}
BENCHMARK(BM_Round)->Args({2, 2, 1})->Args({8, 8, 1})->Args({64, 8, 1})->Args({1024, 8, 1})->Args({2, 2, 161});

}  // namespace
}  // namespace farandole::controller::job

BENCHMARK_MAIN();
