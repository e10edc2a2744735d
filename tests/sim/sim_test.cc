// Some hundred seeds of the simulator; many more: make sim SEEDS=10000. FARANDOLE_TEST_SEED sets the first one.

#include <cstdlib>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "gtest/gtest.h"
#include "tests/sim/run.h"

namespace farandole::sim {
namespace {

constexpr uint64_t kSeeds = 3200;
// A planted bug ends its search where it is found; lives_left_out needs seven thousand.
constexpr uint64_t kSeedsPerBug = 8000;

uint64_t FirstSeed() {
  const char* text = std::getenv("FARANDOLE_TEST_SEED");
  uint64_t first = 1;
  if (text != nullptr && *text != '\0') {
    EXPECT_TRUE(absl::SimpleAtoi(text, &first)) << text;
  }
  return first;
}

TEST(Sim, SeedsRunCleanAndReachEverything) {
  Coverage coverage;
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + kSeeds; ++seed) {
    const RunResult result = RunSeed(seed, Bugs(), false, &coverage);
    ASSERT_EQ(result.violation, "") << "seed " << seed;
  }
  EXPECT_EQ(absl::StrJoin(coverage.Missing(), ", "), "") << "nothing of this happened in " << kSeeds << " seeds";
}

TEST(Sim, OneSeedIsOneRun) {
  for (uint64_t seed = FirstSeed(); seed < FirstSeed() + 10; ++seed) {
    Coverage coverage;
    const RunResult once = RunSeed(seed, Bugs(), false, &coverage);
    const RunResult again = RunSeed(seed, Bugs(), false, &coverage);
    EXPECT_EQ(once.digest, again.digest) << "seed " << seed;
    EXPECT_EQ(once.events, again.events) << "seed " << seed;
  }
}

class PlantedBug : public testing::TestWithParam<NamedBug> {};

TEST_P(PlantedBug, IsFound) {
  Bugs bugs;
  bugs.*GetParam().flag = true;
  Coverage coverage;
  for (uint64_t seed = 1; seed <= kSeedsPerBug; ++seed) {
    if (IsElastic(seed) != GetParam().elastic) continue;
    const RunResult result = RunSeed(seed, bugs, false, &coverage);
    if (result.violation.empty()) continue;
    RecordProperty("seed", std::to_string(seed));
    RecordProperty("violation", result.violation);
    return;
  }
  FAIL() << "no checker has found it in " << kSeedsPerBug << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Sim, PlantedBug, testing::ValuesIn(kBugs),
                         [](const testing::TestParamInfo<NamedBug>& info) { return info.param.name; });

}  // namespace
}  // namespace farandole::sim
