// Runs every schedule symbolically: values are sets of ranks, messages meet round by round, and nothing depends on
// time. What passes here is right for every medium.
#include "worker/schedule.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "worker/lane_layout.h"

namespace farandole {
namespace {

using Kind = Step::Kind;

constexpr int kSizeMax = 33;

// Whose contributions a cell holds, each at most once: bit m for member m.
using Cell = uint64_t;

// A collective among `size` members whose operand has `cells` one-byte cells.
class World {
 public:
  World(int size, int64_t cells) : size_(size), cells_(size, std::vector<Cell>(cells, 0)), heard_(size) {
    for (int p = 0; p < size; ++p) heard_[p] = Cell{1} << p;
  }

  std::vector<Cell>& cells(int position) { return cells_[position]; }
  Cell heard(int position) const { return heard_[position]; }

  // Runs all lanes to the end; "" or what is wrong.
  std::string Run(const std::vector<Schedule>& schedules, const LaneLayout& layout) {
    for (const Schedule& schedule : schedules) {
      if (schedule.rounds.size() != schedules[0].rounds.size()) return "different numbers of rounds";
    }
    for (int64_t lane = 0; lane < layout.lanes(); ++lane) {
      for (size_t round = 0; round < schedules[0].rounds.size(); ++round) {
        std::string wrong = RunRound(schedules, layout, lane, round);
        if (!wrong.empty()) return "round " + std::to_string(round) + ": " + wrong;
      }
    }
    return "";
  }

  // Bytes that a member has sent.
  int64_t sent(int position) const {
    auto it = sent_.find(position);
    return it == sent_.end() ? 0 : it->second;
  }

 private:
  struct Message {
    int block;
    std::vector<Cell> cells;
    Cell heard;
    bool taken = false;
  };

  std::vector<Cell> Read(int position, const Extent& extent) const {
    const auto begin = cells_[position].begin() + extent.offset;
    return std::vector<Cell>(begin, begin + extent.bytes);
  }

  std::string RunRound(const std::vector<Schedule>& schedules, const LaneLayout& layout, int64_t lane, size_t round) {
    std::map<std::pair<int, int>, Message> wire;
    for (int p = 0; p < size_; ++p) {
      std::string wrong = Send(p, schedules[p].rounds[round], layout, lane, &wire);
      if (!wrong.empty()) return wrong;
    }
    for (int p = 0; p < size_; ++p) {
      for (const Step& step : schedules[p].rounds[round]) {
        std::string wrong = Take(p, step, layout, lane, &wire);
        if (!wrong.empty()) return "member " + std::to_string(p) + " " + wrong;
      }
    }
    for (const auto& [ends, message] : wire) {
      if (!message.taken) return "nobody receives what " + std::to_string(ends.first) + " sends";
    }
    return "";
  }

  std::string Send(int p, const Round& round, const LaneLayout& layout, int64_t lane,
                   std::map<std::pair<int, int>, Message>* wire) {
    std::set<int> read, written;
    const std::vector<int> peers = PeersOf(p, size_);
    if (std::count_if(round.begin(), round.end(), [](const Step& s) { return s.kind == Kind::kReceiveReduce; }) > 1) {
      return "two receives add in one round";
    }
    for (const Step& step : round) {
      if (step.kind != Kind::kCopy && std::count(peers.begin(), peers.end(), step.peer) == 0) {
        return "a peer that PeersOf does not name";
      }
      if (step.kind == Kind::kSend) read.insert(step.block);
      if (step.kind == Kind::kReceive && step.block != kToken) written.insert(step.block);
      if (step.kind != Kind::kSend) continue;
      Message message{step.block, {}, heard_[p]};
      if (step.block != kToken) message.cells = Read(p, layout.Block(lane, step.block));
      sent_[p] += message.cells.size();
      if (!wire->emplace(std::make_pair(p, step.peer), std::move(message)).second) return "two sends to one peer";
    }
    for (int block : read) {
      if (written.count(block) != 0) return "a block is sent and replaced in one round";
    }
    return "";
  }

  std::string Take(int p, const Step& step, const LaneLayout& layout, int64_t lane,
                   std::map<std::pair<int, int>, Message>* wire) {
    if (step.kind == Kind::kSend) return "";
    if (step.kind == Kind::kCopy) {
      const Extent extent = layout.Block(lane, step.block);
      for (int64_t i = 0; i < extent.bytes; ++i) cells_[p][extent.offset + i] = Cell{1} << p;
      return "";
    }
    auto it = wire->find({step.peer, p});
    if (it == wire->end()) return "waits for " + std::to_string(step.peer) + ", which sends nothing";
    Message& message = it->second;
    if (message.taken || message.block != step.block) return "expects another block";
    message.taken = true;
    heard_[p] |= message.heard;
    if (step.block == kToken) return "";
    const Extent extent = layout.Block(lane, step.block);
    for (int64_t i = 0; i < extent.bytes; ++i) {
      Cell& cell = cells_[p][extent.offset + i];
      if (step.kind == Kind::kReceiveReduce && (cell & message.cells[i]) != 0) return "adds a contribution twice";
      cell = step.kind == Kind::kReceiveReduce ? cell | message.cells[i] : message.cells[i];
    }
    return "";
  }

  const int size_;
  std::vector<std::vector<Cell>> cells_;
  std::vector<Cell> heard_;
  std::map<int, int64_t> sent_;
};

Cell All(int size) { return (Cell{1} << size) - 1; }

std::vector<Schedule> ForAll(int size, const std::function<Schedule(int)>& make) {
  std::vector<Schedule> schedules;
  for (int p = 0; p < size; ++p) schedules.push_back(make(p));
  return schedules;
}

TEST(ScheduleTest, RingAllreducesEveryContributionOnce) {
  for (int size = 1; size <= kSizeMax; ++size) {
    const auto schedules = ForAll(size, [size](int p) { return RingAllreduce(p, size); });
    for (int64_t cells : {0, 1, 2, 7, size - 1, size, size + 1, 5 * size + 3, 241}) {
      for (int64_t chunk : {1, 3, 1000}) {
        World world(size, cells);
        for (int p = 0; p < size; ++p) world.cells(p).assign(cells, Cell{1} << p);
        ASSERT_EQ(world.Run(schedules, LaneLayout::Even(cells, 1, size, chunk)), "") << size << " " << cells;
        for (int p = 0; p < size; ++p) {
          ASSERT_EQ(world.cells(p), std::vector<Cell>(cells, All(size))) << size << " " << cells << " " << p;
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
  for (int size = 1; size <= kSizeMax; ++size) {
    const auto schedules = ForAll(size, [size](int p) { return DoublingAllreduce(p, size); });
    for (int64_t cells : {0, 1, 7}) {
      World world(size, cells);
      for (int p = 0; p < size; ++p) world.cells(p).assign(cells, Cell{1} << p);
      ASSERT_EQ(world.Run(schedules, LaneLayout::Even(cells, 1, 1, 3)), "") << size << " " << cells;
      for (int p = 0; p < size; ++p) {
        ASSERT_EQ(world.cells(p), std::vector<Cell>(cells, All(size))) << size << " " << cells << " " << p;
      }
    }
  }
}

TEST(ScheduleTest, RingAllgatherBringsEveryBlockToItsPlace) {
  for (int size = 1; size <= kSizeMax; ++size) {
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
  for (int size = 1; size <= kSizeMax; ++size) {
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
  for (int size = 1; size <= kSizeMax; ++size) {
    const auto schedules = ForAll(size, [size](int p) { return DisseminationBarrier(p, size); });
    World world(size, 0);
    ASSERT_EQ(world.Run(schedules, LaneLayout::Even(0, 1, 1, 1)), "") << size;
    for (int p = 0; p < size; ++p) ASSERT_EQ(world.heard(p), All(size)) << size << " " << p;
  }
}

TEST(ScheduleTest, PeersAreSymmetric) {
  for (int size = 1; size <= kSizeMax; ++size) {
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
  EXPECT_NE(run([](auto* s) { (*s)[1].rounds.pop_back(); }), "");
  EXPECT_NE(run([](auto* s) { (*s)[2].rounds[1].pop_back(); }), "");
  EXPECT_NE(run([](auto* s) { (*s)[2].rounds[3][0].block = 0; }), "");
  EXPECT_NE(run([](auto* s) { (*s)[0].rounds[4][1].kind = Kind::kReceiveReduce; }), "");
  EXPECT_NE(run([](auto* s) { (*s)[3].rounds[0].push_back((*s)[3].rounds[0][1]); }), "");
  EXPECT_NE(run([](auto* s) { (*s)[3].rounds[0].push_back((*s)[3].rounds[0][0]); }), "");
}

}  // namespace
}  // namespace farandole
