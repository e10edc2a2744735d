#ifndef FARANDOLE_WORKER_SCHEDULE_SCHEDULE_TESTING_H_
#define FARANDOLE_WORKER_SCHEDULE_SCHEDULE_TESTING_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "worker/schedule/lane_layout.h"
#include "worker/schedule/schedule.h"

// Runs every schedule symbolically: values are sets of ranks, messages meet round by round, and nothing depends on
// time. What passes here is right for every medium.
namespace farandole::worker::schedule {

inline constexpr int kScheduleSizeMax = 33;

// Whose contributions a cell holds, each at most once: bit m for member m.
using Cell = uint64_t;

// A collective among `size` members whose operand has `cells` one-byte cells.
class World {
 public:
  // With a channel between every two members if `mesh`.
  World(int size, int64_t cells, bool mesh = false)
      : size_(size), mesh_(mesh), cells_(size, std::vector<Cell>(cells, 0)), heard_(size) {
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
    int blocks;
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
    const std::vector<int> peers = mesh_ ? MeshPeersOf(p, size_) : PeersOf(p, size_);
    std::string wrong = CheckReduced(round);
    if (!wrong.empty()) return wrong;
    for (const Step& step : round) {
      if (step.kind != Step::Kind::kCopy && std::count(peers.begin(), peers.end(), step.peer) == 0) {
        return "a peer that there is no channel to";
      }
      for (int i = 0; i < step.blocks && step.block != kToken; ++i) {
        if (step.kind == Step::Kind::kSend) read.insert(step.block + i);
        if (step.kind == Step::Kind::kReceive) written.insert(step.block + i);
      }
      if (step.kind != Step::Kind::kSend && step.kind != Step::Kind::kSendInput) continue;
      Message message{step.block, step.blocks, {}, heard_[p]};
      if (step.kind == Step::Kind::kSendInput) {
        message.cells.assign(layout.Block(lane, step.block).bytes, Cell{1} << p);
      } else if (step.block != kToken) {
        message.cells = Read(p, layout.Blocks(lane, step.block, step.blocks));
      }
      sent_[p] += message.cells.size();
      if (!wire->emplace(std::make_pair(p, step.peer), std::move(message)).second) return "two sends to one peer";
    }
    for (int block : read) {
      if (written.count(block) != 0) return "a block is sent and replaced in one round";
    }
    return "";
  }

  // At most one receive reduces, or several in order, of one block.
  static std::string CheckReduced(const Round& round) {
    int plain = 0, ordered = 0;
    std::set<int> blocks;
    for (const Step& step : round) {
      plain += step.kind == Step::Kind::kReceiveReduce;
      ordered += step.kind == Step::Kind::kReceiveOrdered;
      if (step.kind == Step::Kind::kReceiveOrdered) blocks.insert(step.block);
    }
    if (plain > 1 || (plain > 0 && ordered > 0)) return "two receives add in one round";
    return blocks.size() > 1 ? "two blocks are reduced in order in one round" : "";
  }

  std::string Take(int p, const Step& step, const LaneLayout& layout, int64_t lane,
                   std::map<std::pair<int, int>, Message>* wire) {
    if (step.kind == Step::Kind::kSend || step.kind == Step::Kind::kSendInput) return "";
    if (step.kind == Step::Kind::kCopy) {
      const Extent extent = layout.Block(lane, step.block);
      for (int64_t i = 0; i < extent.bytes; ++i) cells_[p][extent.offset + i] = Cell{1} << p;
      return "";
    }
    auto it = wire->find({step.peer, p});
    if (it == wire->end()) return "waits for " + std::to_string(step.peer) + ", which sends nothing";
    Message& message = it->second;
    if (message.taken || message.block != step.block || message.blocks != step.blocks) return "expects another block";
    message.taken = true;
    heard_[p] |= message.heard;
    if (step.block == kToken) return "";
    const Extent extent = layout.Blocks(lane, step.block, step.blocks);
    for (int64_t i = 0; i < extent.bytes; ++i) {
      Cell& cell = cells_[p][extent.offset + i];
      const Cell arrived = message.cells[i];
      if (step.kind == Step::Kind::kReceive) cell = arrived;
      if (step.kind == Step::Kind::kReceive) continue;
      if ((cell & arrived) != 0) return "adds a contribution twice";
      if (step.kind == Step::Kind::kReceiveOrdered && arrived != Cell{1} << step.peer) return "combines no operand";
      cell |= arrived;
    }
    return "";
  }

  const int size_;
  const bool mesh_;
  std::vector<std::vector<Cell>> cells_;
  std::vector<Cell> heard_;
  std::map<int, int64_t> sent_;
};

inline Cell AllOf(int size) { return (Cell{1} << size) - 1; }

inline std::vector<Schedule> ForAll(int size, const std::function<Schedule(int)>& make) {
  std::vector<Schedule> schedules;
  for (int p = 0; p < size; ++p) schedules.push_back(make(p));
  return schedules;
}

}  // namespace farandole::worker::schedule

#endif  // FARANDOLE_WORKER_SCHEDULE_SCHEDULE_TESTING_H_
