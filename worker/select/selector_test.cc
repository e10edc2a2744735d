#include "worker/select/selector.h"

#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"

namespace farandole::worker::select {
namespace {

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

TEST(SelectorTest, ShapesOfGroups) {
  EXPECT_EQ(ShapeOf(collective::TestGroup(1, 0)), WorldShape::kAlone);
  EXPECT_EQ(ShapeOf(collective::TestGroup(3, 1)), WorldShape::kOneHost);
  EXPECT_EQ(ShapeOf(collective::TestGroupOnHosts({0, 1, 0}, 0)), WorldShape::kShared);
  EXPECT_EQ(ShapeOf(collective::TestGroupOnHosts({0, 1}, 0)), WorldShape::kAny);
}

TEST(SelectorTest, ARowIsForItsOperationMemoryAndSizes) {
  const SelectorRow row = {OpKind::kAllreduce, DeviceKind::kAccelerator, 8, 1024, WorldShape::kAny, "x"};
  EXPECT_TRUE(Asks(row, {OpKind::kAllreduce, DeviceKind::kAccelerator, 8}));
  EXPECT_TRUE(Asks(row, {OpKind::kAllreduce, DeviceKind::kAccelerator, 1024}));
  EXPECT_FALSE(Asks(row, {OpKind::kAllreduce, DeviceKind::kAccelerator, 7}));
  EXPECT_FALSE(Asks(row, {OpKind::kAllreduce, DeviceKind::kAccelerator, 1025}));
  EXPECT_FALSE(Asks(row, {OpKind::kAllgather, DeviceKind::kAccelerator, 8}));
  EXPECT_FALSE(Asks(row, {OpKind::kAllreduce, DeviceKind::kHost, 8}));
  const SelectorRow all = {OpKind::kUnspecified, DeviceKind::kHost, 0, kNoLimit, WorldShape::kAny, "x"};
  EXPECT_TRUE(Asks(all, {OpKind::kBarrier, DeviceKind::kHost, 0}));
  EXPECT_TRUE(Asks(all, {OpKind::kBroadcast, DeviceKind::kHost, kNoLimit}));
}

TEST(SelectorTest, WhyARowDoesNotServe) {
  const auto why = [](WorldShape world, const collective::Group& group) {
    return WhyNot({OpKind::kUnspecified, DeviceKind::kHost, 0, kNoLimit, world, "x"}, group, "auto");
  };
  EXPECT_EQ(why(WorldShape::kAlone, collective::TestGroup(4, 0)), "there are 4 members");
  EXPECT_EQ(why(WorldShape::kOneHost, collective::TestGroupOnHosts({0, 1}, 0)),
            "rank 0 (pid 1000 on host host0) and rank 1 (pid 1001 on host host1) do not share an agent");
  EXPECT_EQ(why(WorldShape::kShared, collective::TestGroup(2, 0)), "all members share an agent");
  EXPECT_EQ(why(WorldShape::kShared, collective::TestGroupOnHosts({0, 1}, 0)), "no two members share an agent");
  EXPECT_EQ(why(WorldShape::kAny, collective::TestGroup(2, 0)), "");
}

TEST(SelectorTableTest, Prints) {
  EXPECT_EQ(SelectorTableText(BuiltInSelectorTable()),
            "operation      memory         from bytes     to bytes  members on   medium\n"
            "any            CPU                     0          any  one member   lone\n"
            "any            CPU                     0          any  one agent    shm\n"
            "any            CPU                     0          any  some agents  hier\n"
            "any            CPU                     0          any  any          verbs\n"
            "any            CPU                     0          any  any          tcp\n"
            "any            GPU                     0          any  any          nccl\n"
            "any            GPU                     0          any  any          staged\n");
}

}  // namespace
}  // namespace farandole::worker::select
