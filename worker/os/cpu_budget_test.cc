#include "worker/os/cpu_budget.h"

#include <string>

#include "base/fake_root_testing.h"
#include "gtest/gtest.h"

namespace farandole::worker::os {
namespace {

class CpuBudgetTest : public testing::Test {
 protected:
  void Write(const std::string& file, const std::string& text) { fake_.Write(file, text); }

  FakeRoot fake_{testing::TempDir()};
  const std::string& root_ = fake_.path();
};

TEST_F(CpuBudgetTest, NothingReadableDoesNotLimit) { EXPECT_EQ(ReadCpuBudget(root_).quota_cpus, 0); }

TEST_F(CpuBudgetTest, KnowsTheAffinityOfTheCaller) {
  cpu_set_t mine;
  ASSERT_EQ(sched_getaffinity(0, sizeof mine, &mine), 0);
  const CpuBudget budget = ReadCpuBudget(root_);
  EXPECT_TRUE(CPU_EQUAL(&mine, &budget.affinity));
}

TEST_F(CpuBudgetTest, Version2TakesTheLeastOfTheParents) {
  Write("/proc/self/cgroup", "0::/pod/container\n");
  Write("/sys/fs/cgroup/pod/container/cpu.max", "400000 100000\n");
  Write("/sys/fs/cgroup/pod/cpu.max", "150000 100000\n");
  EXPECT_DOUBLE_EQ(ReadCpuBudget(root_).quota_cpus, 1.5);
}

TEST_F(CpuBudgetTest, Version2InItsOwnNamespace) {
  Write("/proc/self/cgroup", "0::/\n");
  Write("/sys/fs/cgroup/cpu.max", "50000 100000\n");
  EXPECT_DOUBLE_EQ(ReadCpuBudget(root_).quota_cpus, 0.5);
}

TEST_F(CpuBudgetTest, MaxIsNoLimit) {
  Write("/proc/self/cgroup", "0::/a\n");
  Write("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
  EXPECT_EQ(ReadCpuBudget(root_).quota_cpus, 0);
}

TEST_F(CpuBudgetTest, Version1) {
  Write("/proc/self/cgroup", "5:memory:/b\n4:cpu,cpuacct:/b\n0::/\n");
  Write("/sys/fs/cgroup/cpu/b/cpu.cfs_quota_us", "200000\n");
  Write("/sys/fs/cgroup/cpu/b/cpu.cfs_period_us", "100000\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
  Write("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
  EXPECT_DOUBLE_EQ(ReadCpuBudget(root_).quota_cpus, 2);
}

}  // namespace
}  // namespace farandole::worker::os
