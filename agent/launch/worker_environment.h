#ifndef FARANDOLE_AGENT_LAUNCH_WORKER_ENVIRONMENT_H_
#define FARANDOLE_AGENT_LAUNCH_WORKER_ENVIRONMENT_H_

#include <string>
#include <vector>

#include "agent/launch/options.h"

namespace farandole::agent::launch {

// The environment of the worker with this local rank: the agent's own, and what tells the worker which one it is. No
// secret is in it. The agent knows ranks of other hosts only if all hosts have equally many.
std::vector<std::string> WorkerEnvironment(const AgentOptions& options, int local_rank);

}  // namespace farandole::agent::launch

#endif  // FARANDOLE_AGENT_LAUNCH_WORKER_ENVIRONMENT_H_
