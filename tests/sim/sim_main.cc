// The simulator as a program: for many seeds, or for one.

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/command_line.h"
#include "proto/version.h"
#include "tests/sim/run.h"

namespace farandole::sim {
namespace {

struct Arguments {
  uint64_t first = 1;
  uint64_t seeds = 1000;
  bool trace = false;
  bool scale = false;
  Scale size;
  Bugs bugs;
};

bool SetBug(const std::string& name, Bugs* bugs) {
  for (const NamedBug& bug : kBugs) {
    if (name == bug.name) return bugs->*bug.flag = true;
  }
  return false;
}

const Program kSim = {
    "sim",
    kVersion,
    "[--first N] [--seeds N] | --seed N [--trace] | --scale [--ranks N] [--steps N]",
    "Runs whole jobs on simulated time, one for each seed, up to the first that violates something.\n",
    {
        {"--first", "N", "first seed (1)"},
        {"--seeds", "N", "how many (1000)"},
        {"--seed", "N", "this one alone"},
        {"--trace", "", "write everything that happens on stderr"},
        {"--bug", "NAME", "with this defect, which has to be found"},
        {"--scale", "", "one long run of many ranks instead; prints events per second"},
        {"--ranks", "N", "of that run"},
        {"--steps", "N", "of that run"},
    }};

absl::Status Parse(const std::vector<std::string>& words, Arguments* arguments) {
  absl::StatusOr<CommandLine> line = CommandLine::Split(kSim, words);
  if (!line.ok()) return line.status();
  arguments->trace = line->Has("--trace");
  arguments->scale = line->Has("--scale");
  line->Number("--ranks", 1, INT32_MAX, &arguments->size.ranks);
  line->Number("--steps", 1, INT32_MAX, &arguments->size.steps);
  line->Number<uint64_t>("--first", 0, UINT64_MAX, &arguments->first);
  line->Number<uint64_t>("--seeds", 1, UINT64_MAX, &arguments->seeds);
  if (line->Has("--seed")) arguments->seeds = 1;
  line->Number<uint64_t>("--seed", 0, UINT64_MAX, &arguments->first);
  std::string bug;
  line->Text("--bug", &bug);
  if (line->Has("--bug") && !SetBug(bug, &arguments->bugs)) line->Refuse("--bug", "the name of one in tests/sim");
  return line->status();
}

int RunLarge(const Scale& scale) {
  Coverage coverage;
  const TimePoint begin = Clock::Monotonic().Now();
  const RunResult result = RunScale(scale, &coverage);
  const double seconds = static_cast<double>(Clock::Monotonic().Now().ns() - begin.ns()) / 1e9;
  for (const auto& [what, count] : coverage.hits()) {
    std::printf("%12llu  %s\n", static_cast<unsigned long long>(count), what.c_str());
  }
  const double submissions = 1.0 * scale.ranks * scale.steps * scale.tensors;
  std::printf("%d ranks x %d steps x %d tensors: %.1f s for %.1f simulated, %.2f M events/s, %.2f M submissions/s\n",
              scale.ranks, scale.steps, scale.tensors, seconds, result.seconds,
              static_cast<double>(result.events) / seconds / 1e6, submissions / seconds / 1e6);
  if (!result.violation.empty()) std::printf("%s\n", result.violation.c_str());
  return result.violation.empty() ? 0 : 1;
}

int Main(const std::vector<std::string>& words) {
  if (const auto code = AnswerHelp(kSim, words)) return *code;
  Arguments arguments;
  const absl::Status parsed = Parse(words, &arguments);
  if (!parsed.ok()) return UsageError(kSim, parsed);
  if (arguments.scale) return RunLarge(arguments.size);
  Coverage coverage;
  uint64_t events = 0;
  double seconds = 0;
  RunResult result;
  for (uint64_t i = 0; i < arguments.seeds; ++i) {
    const uint64_t seed = arguments.first + i;
    result = RunSeed(seed, arguments.bugs, arguments.trace, &coverage);
    events += result.events;
    seconds += result.seconds;
    if (!result.violation.empty()) {
      std::printf("seed %llu %s\n", static_cast<unsigned long long>(seed), result.violation.c_str());
      return 1;
    }
  }
  for (const auto& [what, count] : coverage.hits()) {
    std::printf("%12llu  %s\n", static_cast<unsigned long long>(count), what.c_str());
  }
  for (const std::string& what : coverage.Missing()) std::printf("     missing  %s\n", what.c_str());
  std::printf("%llu seeds clean, %llu events in %.0f simulated seconds, last digest %016llx\n",
              static_cast<unsigned long long>(arguments.seeds), static_cast<unsigned long long>(events), seconds,
              static_cast<unsigned long long>(result.digest));
  return 0;
}

}  // namespace
}  // namespace farandole::sim

int main(int argc, char** argv) { return farandole::sim::Main({argv + 1, argv + argc}); }
