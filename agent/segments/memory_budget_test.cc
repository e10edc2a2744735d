#include "agent/segments/memory_budget.h"

#include <string>

#include "base/fake_root_testing.h"
#include "gtest/gtest.h"

namespace farandole::agent::segments {
namespace {

class MemoryBudgetTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) { fake_.Write(file, text); }

  FakeRoot fake_{testing::TempDir()};
  const std::string& root_ = fake_.path();
};

TEST_F(MemoryBudgetTest, WithoutGroupsItIsTheHosts) {
  EXPECT_GT(ReadMemoryBudget(root_).bytes, uint64_t{256} << 20);
  EXPECT_FALSE(ReadMemoryBudget(root_).of_group);
}

TEST_F(MemoryBudgetTest, ParentsLimitToo) {
  Write("/proc/self/cgroup", "0::/pod/container\n");
  Write("/sys/fs/cgroup/pod/container/memory.max", "max\n");
  Write("/sys/fs/cgroup/pod/memory.max", "104857600\n");
  EXPECT_EQ(ReadMemoryBudget(root_).bytes, 104857600u);
  EXPECT_TRUE(ReadMemoryBudget(root_).of_group);
}

TEST_F(MemoryBudgetTest, Version1) {
  Write("/proc/self/cgroup", "5:memory:/b\n4:cpu,cpuacct:/c\n");
  Write("/sys/fs/cgroup/memory/b/memory.limit_in_bytes", "5000\n");
  // "Unlimited" of version 1.
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  Write("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "1\n");
  EXPECT_EQ(ReadMemoryBudget(root_).bytes, 5000u);
}

TEST(MemoryBudgetTextTest, SaysWhereTheBoundComesFrom) {
  EXPECT_EQ(Describe({uint64_t{16} << 30, false}),
            "shared memory: up to 8 GiB for segments (half of 16 GiB, the machine's memory)");
  EXPECT_EQ(Describe({uint64_t{1843} << 20, true}),
            "shared memory: up to 921.5 MiB for segments (half of 1.8 GiB, the control group's limit)");
  EXPECT_EQ(Describe({1000, true}),
            "shared memory: up to 500 bytes for segments (half of 1000 bytes, the control group's limit)");
}

}  // namespace
}  // namespace farandole::agent::segments
