#ifndef FARANDOLE_CONTROLLER_WAITS_LATENESS_H_
#define FARANDOLE_CONTROLLER_WAITS_LATENESS_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "controller/types/job_status.h"
#include "proto/types.h"

namespace farandole::controller::waits {

// How late each rank is, always. Pure; 16 bytes a rank.
//
// While negotiating a rank's lateness with a tensor is the time from the first rank's announcement to its own. In a
// replay nothing is announced; there it is the greatest slack of all ranks less its own (docs/replay.md, section 8).
class Lateness {
 public:
  explicit Lateness(int size) : ranks_(size) {}

  // `rank` announced a tensor `us` after the first rank did; `last`: nobody else was missing any more.
  void Announced(Rank rank, int64_t us, bool last);
  // Slack that ranks report of about the same time; no-op for fewer than two.
  void Reported(const std::vector<std::pair<Rank, uint64_t>>& slack_us);

  RankLateness Of(Rank rank) const;

 private:
  enum class Source : uint8_t { kNone, kAnnounced, kReported };
  struct State {
    float mean_us = 0;
    float max_us = 0;
    uint32_t last_count = 0;
    Source source = Source::kNone;
    uint8_t samples = 0;  // of this source, as far as they matter for the next one's weight
  };
  // The mean begins anew with another source, as the arithmetic mean of its first `memory` samples; after that each new
  // one counts for one part in `memory`.
  static void Add(State* state, Source source, double us, uint8_t memory);

  std::vector<State> ranks_;
};

}  // namespace farandole::controller::waits

#endif  // FARANDOLE_CONTROLLER_WAITS_LATENESS_H_
