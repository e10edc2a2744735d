#include "worker/schedule/schedule.h"

#include <algorithm>
#include <functional>
#include <vector>

#include "gtest/gtest.h"
#include "worker/schedule/lane_layout.h"
#include "worker/schedule/schedule_testing.h"

namespace farandole::worker::schedule {
namespace {

using Kind = Step::Kind;

TEST(ScheduleTest, RingAllreducesEveryContributionOnce) {
  for (int size = 1; size <= kScheduleSizeMax; ++size) {
    const auto schedules = ForAll(size, [size](int p) { return RingAllreduce(p, size); });
    for (int64_t cells : {0, 1, 2, 7, size - 1, size, size + 1, 5 * size + 3, 241}) {
      for (int64_t chunk : {1, 3, 1000}) {
        World world(size, cells);
        for (int p = 0; p < size; ++p) world.cells(p).assign(cells, Cell{1} << p);
        ASSERT_EQ(world.Run(schedules, LaneLayout::Even(cells, 1, size, chunk)), "") << size << " " << cells;
        for (int p = 0; p < size; ++p) {
          ASSERT_EQ(world.cells(p), std::vector<Cell>(cells, AllOf(size))) << size << " " << cells << " " << p;
          // 2(N-1)/N of the operand, up to one cell a round because of the cuts.
          const int64_t rounds = 2 * (size - 1);
          const int64_t lanes = LaneLayout::Even(cells, 1, size, chunk).lanes();
          ASSERT_LE(world.sent(p), rounds * (cells / size) + rounds * lanes);
        }
      }
    }
  }
}

TEST(ScheduleTest, DoublingAllreducesEveryContributionOnce) {
  for (int size = 1; size <= kScheduleSizeMax; ++size) {
    const auto schedules = ForAll(size, [size](int p) { return DoublingAllreduce(p, size); });
    for (int64_t cells : {0, 1, 7}) {
      World world(size, cells);
      for (int p = 0; p < size; ++p) world.cells(p).assign(cells, Cell{1} << p);
      ASSERT_EQ(world.Run(schedules, LaneLayout::Even(cells, 1, 1, 3)), "") << size << " " << cells;
      for (int p = 0; p < size; ++p) {
        ASSERT_EQ(world.cells(p), std::vector<Cell>(cells, AllOf(size))) << size << " " << cells << " " << p;
      }
    }
  }
}

// Every member gets the sum of all, and sends no more than `sent_max(cells, lanes)`.
void ExpectAllreduces(const std::function<Schedule(int, int)>& make, const std::function<int(int)>& blocks, bool mesh,
                      const std::function<int64_t(int, int64_t, int64_t)>& sent_max) {
  for (int size = 1; size <= kScheduleSizeMax; ++size) {
    const auto schedules = ForAll(size, [&](int p) { return make(p, size); });
    for (int64_t cells : {0, 1, 7, size - 1, size, 5 * size + 3}) {
      for (int64_t chunk : {1, 3, 1000}) {
        World world(size, cells, mesh);
        for (int p = 0; p < size; ++p) world.cells(p).assign(cells, Cell{1} << p);
        const LaneLayout layout = LaneLayout::Even(cells, 1, blocks(size), chunk);
        ASSERT_EQ(world.Run(schedules, layout), "") << size << " " << cells << " " << chunk;
        for (int p = 0; p < size; ++p) {
          ASSERT_EQ(world.cells(p), std::vector<Cell>(cells, AllOf(size))) << size << " " << cells;
          ASSERT_LE(world.sent(p), sent_max(size, cells, layout.lanes())) << size << " " << cells << " " << p;
        }
      }
    }
  }
}

TEST(ScheduleTest, ExchangeAllreducesEveryContributionOnce) {
  ExpectAllreduces(
      ExchangeAllreduce, [](int) { return 1; }, true,
      [](int size, int64_t cells, int64_t) { return (size - 1) * cells; });
}

TEST(ScheduleTest, DirectAllreducesEveryContributionOnceWithTheBytesOfTheRing) {
  ExpectAllreduces(
      DirectAllreduce, [](int size) { return size; }, true,
      [](int size, int64_t cells, int64_t lanes) { return 2 * (size - 1) * (cells / size + lanes); });
  EXPECT_EQ(DirectAllreduce(3, 9).rounds.size(), 2u);
}

TEST(ScheduleTest, HalvingAllreducesEveryContributionOnce) {
  ExpectAllreduces(HalvingAllreduce, PowerOfTwoUpTo, false, [](int size, int64_t cells, int64_t lanes) {
    // Who is beyond the power of two gives all to a partner, which gives all back.
    const int power = PowerOfTwoUpTo(size);
    return 2 * (power - 1) * (cells / power + lanes) + (size > power ? cells : 0);
  });
  EXPECT_EQ(HalvingAllreduce(3, 32).rounds.size(), 10u);
  EXPECT_EQ(HalvingAllreduce(3, 33).rounds.size(), 12u);
}

std::vector<int64_t> UnevenCounts(int size, int variant) {
  std::vector<int64_t> counts;
  for (int m = 0; m < size; ++m) {
    counts.push_back(variant == 0 ? 0 : variant == 1 ? (m * 7) % 5 : variant == 2 ? (m == size / 2 ? 40 : 0) : 3);
  }
  return counts;
}

TEST(ScheduleTest, ReducescattersLeaveEachItsOwnBlock) {
  for (const bool direct : {false, true}) {
    for (int size = 2; size <= kScheduleSizeMax; ++size) {
      const auto schedules =
          ForAll(size, [&](int p) { return direct ? DirectReducescatter(p, size) : RingReducescatter(p, size); });
      for (int variant = 0; variant < 4; ++variant) {
        const std::vector<int64_t> counts = UnevenCounts(size, variant);
        for (int64_t chunk : {1, 4, 1000}) {
          const LaneLayout layout = LaneLayout::Ragged(counts, chunk);
          World world(size, layout.total_bytes(), direct);
          for (int p = 0; p < size; ++p) world.cells(p).assign(layout.total_bytes(), Cell{1} << p);
          ASSERT_EQ(world.Run(schedules, layout), "") << size;
          int64_t before = 0;
          for (int p = 0; p < size; ++p) {
            for (int64_t i = 0; i < counts[p]; ++i) ASSERT_EQ(world.cells(p)[before + i], AllOf(size)) << size;
            before += counts[p];
            ASSERT_LE(world.sent(p), layout.total_bytes());
          }
        }
      }
    }
  }
}

TEST(ScheduleTest, DirectAllgatherBringsEveryBlockToItsPlace) {
  for (int size = 1; size <= kScheduleSizeMax; ++size) {
    const auto schedules = ForAll(size, [size](int p) { return DirectAllgather(p, size); });
    for (int variant = 0; variant < 4; ++variant) {
      const std::vector<int64_t> counts = UnevenCounts(size, variant);
      for (int64_t chunk : {1, 4, 1000}) {
        const LaneLayout layout = LaneLayout::Ragged(counts, chunk);
        World world(size, layout.total_bytes(), true);
        ASSERT_EQ(world.Run(schedules, layout), "") << size;
        std::vector<Cell> expected;
        for (int m = 0; m < size; ++m) expected.insert(expected.end(), counts[m], Cell{1} << m);
        for (int p = 0; p < size; ++p) ASSERT_EQ(world.cells(p), expected) << size << " " << p;
      }
    }
  }
}

TEST(ScheduleTest, DirectAlltoallBringsEveryBlockToItsAddressee) {
  for (int size = 1; size <= kScheduleSizeMax; ++size) {
    const auto schedules = ForAll(size, [size](int p) { return DirectAlltoall(p, size); });
    // Here a block has a place of its own in everybody's cells.
    const std::vector<int64_t> counts(size * size, 2);
    World world(size, 2 * size * size, true);
    ASSERT_EQ(world.Run(schedules, LaneLayout::Ragged(counts, 1)), "") << size;
    for (int d = 0; d < size; ++d) {
      for (int64_t i = 0; i < 2 * size * size; ++i) {
        const int64_t from = i / 2 / size, to = i / 2 % size;
        ASSERT_EQ(world.cells(d)[i], to == d ? Cell{1} << from : 0) << size << " " << d << " " << i;
      }
    }
  }
}

TEST(ScheduleTest, RingAllgatherBringsEveryBlockToItsPlace) {
  for (int size = 1; size <= kScheduleSizeMax; ++size) {
    const auto schedules = ForAll(size, [size](int p) { return RingAllgather(p, size); });
    for (int variant = 0; variant < 4; ++variant) {
      std::vector<int64_t> counts;
      int64_t total = 0;
      for (int m = 0; m < size; ++m) {
        counts.push_back(variant == 0 ? 0 : variant == 1 ? (m * 7) % 5 : variant == 2 ? (m == size / 2 ? 40 : 0) : 3);
        total += counts.back();
      }
      for (int64_t chunk : {1, 4, 1000}) {
        World world(size, total);
        ASSERT_EQ(world.Run(schedules, LaneLayout::Ragged(counts, chunk)), "") << size;
        std::vector<Cell> expected;
        for (int m = 0; m < size; ++m) expected.insert(expected.end(), counts[m], Cell{1} << m);
        for (int p = 0; p < size; ++p) ASSERT_EQ(world.cells(p), expected) << size << " " << p;
      }
    }
  }
}

TEST(ScheduleTest, TreeBroadcastReachesAllFromEveryRoot) {
  for (int size = 1; size <= kScheduleSizeMax; ++size) {
    for (int root = 0; root < size; ++root) {
      const auto schedules = ForAll(size, [size, root](int p) { return TreeBroadcast(p, size, root); });
      for (int64_t cells : {0, 1, 10}) {
        World world(size, cells);
        world.cells(root).assign(cells, Cell{1} << root);
        ASSERT_EQ(world.Run(schedules, LaneLayout::Even(cells, 1, 1, 3)), "") << size << " " << root;
        for (int p = 0; p < size; ++p) {
          ASSERT_EQ(world.cells(p), std::vector<Cell>(cells, Cell{1} << root)) << size << " " << root << " " << p;
        }
      }
    }
  }
}

TEST(ScheduleTest, AfterTheBarrierEachHasHeardOfAll) {
  for (int size = 1; size <= kScheduleSizeMax; ++size) {
    const auto schedules = ForAll(size, [size](int p) { return DisseminationBarrier(p, size); });
    World world(size, 0);
    ASSERT_EQ(world.Run(schedules, LaneLayout::Even(0, 1, 1, 1)), "") << size;
    for (int p = 0; p < size; ++p) ASSERT_EQ(world.heard(p), AllOf(size)) << size << " " << p;
  }
}

TEST(ScheduleTest, PeersAreSymmetric) {
  for (int size = 1; size <= kScheduleSizeMax; ++size) {
    for (int p = 0; p < size; ++p) {
      for (int peer : PeersOf(p, size)) {
        EXPECT_NE(peer, p);
        const std::vector<int> back = PeersOf(peer, size);
        EXPECT_EQ(std::count(back.begin(), back.end(), p), 1);
      }
    }
  }
}

// The checker finds what it is there for.
TEST(ScheduleTest, TheCheckerSeesFaults) {
  const auto run = [](const std::function<void(std::vector<Schedule>*)>& damage) {
    std::vector<Schedule> schedules = ForAll(4, [](int p) { return RingAllreduce(p, 4); });
    damage(&schedules);
    World world(4, 8);
    for (int p = 0; p < 4; ++p) world.cells(p).assign(8, Cell{1} << p);
    return world.Run(schedules, LaneLayout::Even(8, 1, 4, 100));
  };
  EXPECT_EQ(run([](auto*) {}), "");
  EXPECT_NE(run([](auto* s) { (*s)[1].rounds[0][0].blocks = 2; }), "");
  // What has been reduced already is no operand any more.
  EXPECT_NE(run([](auto* s) { (*s)[1].rounds[1][1].kind = Kind::kReceiveOrdered; }), "");
  EXPECT_NE(run([](auto* s) { (*s)[1].rounds.pop_back(); }), "");
  EXPECT_NE(run([](auto* s) { (*s)[2].rounds[1].pop_back(); }), "");
  EXPECT_NE(run([](auto* s) { (*s)[2].rounds[3][0].block = 0; }), "");
  EXPECT_NE(run([](auto* s) { (*s)[0].rounds[4][1].kind = Kind::kReceiveReduce; }), "");
  EXPECT_NE(run([](auto* s) { (*s)[3].rounds[0].push_back((*s)[3].rounds[0][1]); }), "");
  EXPECT_NE(run([](auto* s) { (*s)[3].rounds[0].push_back((*s)[3].rounds[0][0]); }), "");
}

}  // namespace
}  // namespace farandole::worker::schedule
