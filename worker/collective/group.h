#ifndef FARANDOLE_WORKER_COLLECTIVE_GROUP_H_
#define FARANDOLE_WORKER_COLLECTIVE_GROUP_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/types.h"

namespace farandole::worker::collective {

// The members of one process set in one generation, as every communicator is told.
struct Group {
  std::string job;
  GenerationId generation;
  uint32_t process_set = 0;
  // Names this life of the process set in the generation: whatever members leave for each other is kept under it, so
  // that a set whose id is used again meets nothing of the one before. Begins with the id, for the controller to drop
  // it with the set: "0", or "5.17" of the set 5 that item 17 made; parts of a group append to it.
  std::string key = "0";
  std::vector<Member> members;  // ordered by rank
  int position = 0;             // of this worker in `members`
  std::string data_key;         // see View
  // Where those of other hosts find this worker, unless it was told another address: LinkState has it.
  std::string data_address;
  // Bound on building a communicator, and on one collective.
  uint32_t setup_timeout_ms = 30000;
  uint32_t op_timeout_ms = 24 * 3600 * 1000;
};

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_GROUP_H_
