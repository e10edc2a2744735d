#include "agent/launch/worker_environment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

namespace farandole::agent::launch {
namespace {

TEST(WorkerEnvironment, AWorkerOfAnElasticJobHasNoRankBeforeItsJobHasMet) {
  AgentOptions options;
  options.min_size = 2;
  options.size = 4;
  options.environment = {"FARANDOLE_RANK_OF_MINE=1"};
  const std::vector<std::string> variables = WorkerEnvironment(options, 1);
  const auto has = [&variables](const std::string& entry) {
    return std::find(variables.begin(), variables.end(), entry) != variables.end();
  };
  for (const char* entry : {"FARANDOLE_ELASTIC=1", "HOROVOD_ELASTIC=1", "FARANDOLE_SIZE=4", "FARANDOLE_MIN_SIZE=2",
                            "FARANDOLE_MAX_SIZE=0", "FARANDOLE_RANK_OF_MINE=1"}) {
    EXPECT_TRUE(has(entry)) << entry;
  }
  for (const std::string& entry : variables) EXPECT_NE(entry.substr(0, 15), "FARANDOLE_RANK=") << entry;
}

}  // namespace
}  // namespace farandole::agent::launch
