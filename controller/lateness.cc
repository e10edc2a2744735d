#include "controller/lateness.h"

#include <algorithm>

namespace farandole {
namespace {

// Tensors come by the hundred in a step, reports once a second.
constexpr double kAnnouncedWeight = 1.0 / 64;
constexpr double kReportedWeight = 1.0 / 4;

}  // namespace

void Lateness::Add(State* state, double us, double weight) {
  state->mean_us = static_cast<float>(state->any ? state->mean_us + weight * (us - state->mean_us) : us);
  state->max_us = std::max(state->max_us, static_cast<float>(us));
  state->any = true;
}

void Lateness::Announced(Rank rank, int64_t us, bool last) {
  State& state = ranks_[rank.value()];
  Add(&state, static_cast<double>(std::max<int64_t>(0, us)), kAnnouncedWeight);
  if (last) ++state.last_count;
}

void Lateness::Reported(const std::vector<std::pair<Rank, uint64_t>>& slack_us) {
  if (slack_us.size() < 2) return;
  uint64_t most = 0;
  for (const auto& [rank, slack] : slack_us) most = std::max(most, slack);
  Rank last = slack_us.front().first;
  uint64_t least = slack_us.front().second;
  for (const auto& [rank, slack] : slack_us) {
    Add(&ranks_[rank.value()], static_cast<double>(most - slack), kReportedWeight);
    if (slack >= least) continue;
    least = slack;
    last = rank;
  }
  ++ranks_[last.value()].last_count;
}

RankLateness Lateness::Of(Rank rank) const {
  const State& state = ranks_[rank.value()];
  return {static_cast<uint64_t>(state.mean_us), static_cast<uint64_t>(state.max_us), state.last_count};
}

}  // namespace farandole
