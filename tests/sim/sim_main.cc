// Runs the simulator for many seeds, or for one:
//   sim [--first=N] [--seeds=N] [--bug=NAME]    ends at the first seed that violates something
//   sim --seed=N [--trace] [--bug=NAME]         with --trace everything that happens goes to stderr
//   sim --scale [--ranks=N] [--steps=N]         one long run of many ranks; prints events per second

#include <cstdio>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
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

bool Parse(int argc, char** argv, Arguments* arguments) {
  for (int i = 1; i < argc; ++i) {
    absl::string_view value = argv[i];
    if (value == "--trace") {
      arguments->trace = true;
    } else if (value == "--scale") {
      arguments->scale = true;
    } else if (absl::ConsumePrefix(&value, "--ranks=")) {
      if (!absl::SimpleAtoi(value, &arguments->size.ranks)) return false;
    } else if (absl::ConsumePrefix(&value, "--steps=")) {
      if (!absl::SimpleAtoi(value, &arguments->size.steps)) return false;
    } else if (absl::ConsumePrefix(&value, "--seed=")) {
      arguments->seeds = 1;
      if (!absl::SimpleAtoi(value, &arguments->first)) return false;
    } else if (absl::ConsumePrefix(&value, "--first=")) {
      if (!absl::SimpleAtoi(value, &arguments->first)) return false;
    } else if (absl::ConsumePrefix(&value, "--seeds=")) {
      if (!absl::SimpleAtoi(value, &arguments->seeds)) return false;
    } else if (absl::ConsumePrefix(&value, "--bug=")) {
      if (!SetBug(std::string(value), &arguments->bugs)) return false;
    } else {
      return false;
    }
  }
  return true;
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

int Main(int argc, char** argv) {
  Arguments arguments;
  if (!Parse(argc, argv, &arguments)) {
    std::fprintf(
        stderr,
        "usage: sim [--seed=N | --first=N --seeds=N] [--trace] [--bug=NAME] | --scale [--ranks=N] [--steps=N]\n");
    return 2;
  }
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

int main(int argc, char** argv) { return farandole::sim::Main(argc, argv); }
