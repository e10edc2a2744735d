#ifndef FARANDOLE_AGENT_LAUNCH_POD_PLACE_H_
#define FARANDOLE_AGENT_LAUNCH_POD_PLACE_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"

namespace farandole::agent::launch {

// Which pod of a job this is, as whoever made the pods has put it into its environment.
struct PodPlace {
  int32_t index = 0;
  int32_t pods = 0;  // 0: the environment does not say
  std::string said_by;
};

// Asked in this order, the first that is set counts:
//   FARANDOLE_POD_INDEX, FARANDOLE_PODS  a manifest; needed for a JobSet of several Jobs, each of which counts from 0
//   PET_NODE_RANK, PET_NNODES            Kubeflow's trainer
//   JOB_COMPLETION_INDEX                 an Indexed Job
//   RANK, WORLD_SIZE                     Kubeflow's training operator
// `variable` answers nullptr for what is not set. NOT_FOUND: none is; INVALID_ARGUMENT: it holds no such number.
absl::StatusOr<PodPlace> FindPodPlace(const std::function<const char*(const char* name)>& variable);

}  // namespace farandole::agent::launch

#endif  // FARANDOLE_AGENT_LAUNCH_POD_PLACE_H_
