#include "agent/memory_budget.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "gtest/gtest.h"

namespace farandole {
namespace {

class MemoryBudgetTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/memory_budget_XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST_F(MemoryBudgetTest, WithoutGroupsItIsTheHosts) { EXPECT_GT(MemoryBudgetBytes(root_), uint64_t{256} << 20); }

TEST_F(MemoryBudgetTest, ParentsLimitToo) {
  Write("/proc/self/cgroup", "0::/pod/container\n");
  Write("/sys/fs/cgroup/pod/container/memory.max", "max\n");
  Write("/sys/fs/cgroup/pod/memory.max", "104857600\n");
  EXPECT_EQ(MemoryBudgetBytes(root_), 104857600u);
}

TEST_F(MemoryBudgetTest, Version1) {
  Write("/proc/self/cgroup", "5:memory:/b\n4:cpu,cpuacct:/c\n");
  Write("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "5000\n");
  // "Unlimited" of version 1.
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(MemoryBudgetBytes(root_), 5000u);
}

}  // namespace
}  // namespace farandole
