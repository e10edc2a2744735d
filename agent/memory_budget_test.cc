#include "agent/memory_budget.h"

#include <string>

#include "base/fake_root_testing.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

class MemoryBudgetTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) { fake_.Write(file, text); }

  FakeRoot fake_{testing::TempDir()};
  const std::string& root_ = fake_.path();
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
