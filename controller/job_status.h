#ifndef FARANDOLE_CONTROLLER_JOB_STATUS_H_
#define FARANDOLE_CONTROLLER_JOB_STATUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "proto/types.h"

// Plain counterparts of status.proto; comments stand there.
namespace farandole {

enum class JobState : uint8_t { kGathering = 1, kRunning = 2, kFailed = 3 };

struct MemberStatus {
  Member member;
  bool responsive = true;
  std::string cause;
  uint64_t received_through = 0;
  uint64_t completed_through = 0;
  uint32_t open_requests = 0;
  bool left = false;
};

struct Wait {
  std::string name;
  uint32_t process_set = 0;
  uint64_t age_ms = 0;
  std::vector<Rank> ready_ranks;
  std::vector<Rank> missing_ranks;
};

struct JobStatus {
  std::string job;
  JobState state = JobState::kGathering;
  std::string reason;
  GenerationId generation;
  uint32_t size = 0;
  std::vector<MemberStatus> members;
  std::vector<Wait> waits;
  uint64_t items = 0;
  uint64_t tensors = 0;
  uint64_t controller_incarnation = 0;
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_JOB_STATUS_H_
