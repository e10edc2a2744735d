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
                            "FARANDOLE_MAX_SIZE=0", "FARANDOLE_SLOT=1", "FARANDOLE_RANK_OF_MINE=1"}) {
    EXPECT_TRUE(has(entry)) << entry;
  }
  for (const std::string& entry : variables) EXPECT_NE(entry.substr(0, 15), "FARANDOLE_RANK=") << entry;
}

TEST(WorkerEnvironment, AnInheritedDataAddressIsNotPassedOn) {
  AgentOptions options;
  options.min_size = 1;
  options.environment = {"FARANDOLE_DATA_ADDRESS=10.0.0.1"};
  for (const std::string& entry : WorkerEnvironment(options, 0))
    EXPECT_NE(entry.substr(0, 22), "FARANDOLE_DATA_ADDRESS");
  options.data_address = "10.0.0.2";
  const std::vector<std::string> variables = WorkerEnvironment(options, 0);
  EXPECT_EQ(std::count(variables.begin(), variables.end(), "FARANDOLE_DATA_ADDRESS=10.0.0.2"), 1);
}

}  // namespace
}  // namespace farandole::agent::launch
