#include "controller/waits/lateness.h"

#include <algorithm>

namespace farandole::controller::waits {
namespace {

// Tensors come by the hundred in a step, reports once a second.
constexpr uint8_t kAnnouncedMemory = 64;
constexpr uint8_t kReportedMemory = 4;

}  // namespace

void Lateness::Add(State* state, Source source, double us, uint8_t memory) {
  if (state->source != source) {
    state->source = source;
    state->samples = 0;
  }
  if (state->samples < memory) ++state->samples;
  state->mean_us = static_cast<float>(state->mean_us + (us - state->mean_us) / state->samples);
  state->max_us = std::max(state->max_us, static_cast<float>(us));
}

void Lateness::Announced(Rank rank, int64_t us, bool last) {
  State& state = ranks_[rank.value()];
  Add(&state, Source::kAnnounced, static_cast<double>(std::max<int64_t>(0, us)), kAnnouncedMemory);
  if (last) ++state.last_count;
}

void Lateness::Reported(const std::vector<std::pair<Rank, uint64_t>>& slack_us) {
  if (slack_us.size() < 2) return;
  uint64_t most = 0;
  for (const auto& [rank, slack] : slack_us) most = std::max(most, slack);
  Rank last = slack_us.front().first;
  uint64_t least = slack_us.front().second;
  for (const auto& [rank, slack] : slack_us) {
    Add(&ranks_[rank.value()], Source::kReported, static_cast<double>(most - slack), kReportedMemory);
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

}  // namespace farandole::controller::waits
