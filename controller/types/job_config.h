#ifndef FARANDOLE_CONTROLLER_TYPES_JOB_CONFIG_H_
#define FARANDOLE_CONTROLLER_TYPES_JOB_CONFIG_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/types/optional.h"
#include "base/clock.h"
#include "controller/types/job_settings.h"
#include "proto/types.h"

namespace farandole::controller {

// One that failed, and why; number 0: none.
struct EndedGeneration {
  GenerationId id;
  std::string reason;
};

// A run of an elastic job that a process has finished, and which one, as a sentence. An empty run: none has.
struct FinishedRun {
  std::string run;
  std::string text;
};

// What a controller is told when it starts. Times in milliseconds, sizes in bytes.
struct JobConfig {
  uint64_t controller_incarnation = 0;
  uint32_t lease_interval_ms = 1000;
  // Silence of an agent after which its workers are unresponsive, and after which they are given up.
  uint32_t suspect_after_ms = 3000;
  uint32_t give_up_after_ms = 30000;
  // After a report that a connection broke: how long to wait for evidence of a death that names the culprit, or for the
  // reports of others. A rank that has waited in vain listens for a second before it says so, and one that waited for
  // it inside of its host at the same time has no reason to.
  uint32_t evidence_wait_ms = 2500;
  // So long after its connection was closed an agent that takes its workers along has ended: if members report that
  // these cannot be reached, and in an elastic job in any case. One that lives connects again at once.
  uint32_t gone_if_reported_ms = 250;
  uint32_t gone_if_elastic_ms = 2000;
  // When this controller began to serve, if it may have taken the place of another one. For so long the agents of an
  // elastic job that has members may need to connect again: no generation opens without them.
  absl::optional<TimePoint> serves_since;
  uint32_t connect_again_ms = 1000;
  // Of jobs whose rank 0 says nothing else.
  JobSettings settings;
  // Items that not all concerned have received; no further one is sent while there are so many (rule C11).
  uint32_t unstable_items_max = 4096;
  // Whether what repeats itself is replayed by the members; they have to know how.
  bool replay = true;
  // After the end of a replay: how long what only some members had begun may wait for the others before it is
  // withdrawn, unless it is kept.
  uint32_t withdraw_after_ms = 1000;
  int32_t size_max = 65536;
  // Generations up to this number may have been opened in a job of this name that was forgotten since.
  uint64_t last_generation = 0;
  // The last of them, if this controller remembers it: its members may still come.
  EndedGeneration ended;
  // The last of its runs that was finished.
  FinishedRun finished;
  // 32 fresh random bytes on each call; injected so that tests and the simulator are deterministic.
  std::function<std::string()> new_data_key;
};

}  // namespace farandole::controller

#endif  // FARANDOLE_CONTROLLER_TYPES_JOB_CONFIG_H_
