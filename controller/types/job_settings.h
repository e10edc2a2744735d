#ifndef FARANDOLE_CONTROLLER_TYPES_JOB_SETTINGS_H_
#define FARANDOLE_CONTROLLER_TYPES_JOB_SETTINGS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "controller/types/watch_config.h"
#include "proto/messages.h"

namespace farandole::controller {

// What variables of the environment say about a whole job (proto/job_variables.h names them). Pure.
struct JobSettings {
  // Tensors that are ready together go out together up to this size; 0 = each alone.
  int64_t fusion_threshold_bytes = 128 << 20;
  // Ready tensors wait up to so long for others that can be fused with them; 0 = not at all.
  uint32_t batch_window_ms = 0;
  // Only what a script puts into one group is fused, so that arrival has no influence on what is reduced together.
  bool deterministic = false;
  // Slots of the signature cache of each process set; 0 = none.
  uint32_t cache_capacity = 0;
  WatchConfig watch;
  // False: neither time of `watch.stall` counts.
  bool checks_stalls = true;

  WatchConfig Watch() const { return {checks_stalls ? watch.stall : StallConfig{0, 0}, watch.divergence_after_ms}; }
};

// Value of a variable, or null.
using VariableLookup = std::function<const char*(const char* name)>;

// What is set replaces what `settings` has. INVALID_ARGUMENT names the variable, its value and what is allowed; then
// `settings` is as it was.
absl::Status ReadSettings(const VariableLookup& variables, JobSettings* settings);
// As a worker has said them; others than ours are ignored.
absl::Status ReadSettings(const std::vector<Variable>& said, JobSettings* settings);

// A sentence for each variable by which some rank wants what is not done: a rank other than 0, whose values count.
// `said` by rank; all of it can be read.
std::vector<std::string> Disregarded(const JobSettings& used, const std::vector<const std::vector<Variable>*>& said);

}  // namespace farandole::controller

#endif  // FARANDOLE_CONTROLLER_TYPES_JOB_SETTINGS_H_
