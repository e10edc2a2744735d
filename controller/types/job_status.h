#ifndef FARANDOLE_CONTROLLER_TYPES_JOB_STATUS_H_
#define FARANDOLE_CONTROLLER_TYPES_JOB_STATUS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "controller/types/open_wait.h"
#include "proto/types.h"

// Plain counterparts of status.proto; comments stand there.
namespace farandole::controller {

enum class JobState : uint8_t { kGathering = 1, kRunning = 2, kFailed = 3, kRecovering = 4 };

enum class Activity : uint8_t { kNone = 0, kNegotiating = 1, kReplaying = 2, kHalting = 3 };

struct RankLateness {
  uint64_t mean_us = 0;
  uint64_t max_us = 0;
  uint64_t last_count = 0;
};

struct Traffic {
  uint64_t batches = 0;
  uint64_t tensors = 0;
  uint64_t bytes = 0;
  uint64_t cache_hits = 0;
  uint64_t cache_misses = 0;
  uint64_t messages = 0;
};

struct MemberStatus {
  Member member;
  bool responsive = true;
  std::string cause;
  uint64_t received_through = 0;
  uint64_t completed_through = 0;
  uint32_t open_requests = 0;
  bool left = false;
  RankLateness lateness;
  Traffic traffic;
  uint64_t report_age_ms = 0;
  DeviceTime device_time;
};

struct WaitInstead {
  std::vector<Rank> ranks;
  std::string name;
};

struct Wait {
  WaitKind kind = WaitKind::kTensor;
  uint32_t process_set = 0;
  std::vector<std::string> names;
  uint32_t name_count = 0;
  uint64_t age_ms = 0;
  std::vector<Rank> ready_ranks;
  uint32_t ready_count = 0;
  std::vector<Rank> missing_ranks;
  uint32_t missing_count = 0;
  std::vector<WaitInstead> instead;
  std::string text;
};

struct ReplayStatus {
  uint64_t index = 0;  // 0: none goes on
  uint32_t batches = 0;
  uint32_t tensors = 0;
  uint64_t repetitions = 0;
  uint64_t age_ms = 0;
};

struct JobStatus {
  std::string job;
  JobState state = JobState::kGathering;
  Activity activity = Activity::kNone;
  std::string reason;
  GenerationId generation;
  uint32_t phase = 0;
  uint32_t size = 0;
  std::vector<MemberStatus> members;
  std::vector<Wait> waits;
  uint32_t open_waits = 0;
  std::string divergence;
  uint64_t items = 0;
  uint64_t tensors = 0;
  uint64_t controller_incarnation = 0;
  ReplayStatus replay;
  Traffic traffic;
  uint64_t batches_per_second = 0;
  uint64_t tensors_per_second = 0;
  uint64_t bytes_per_second = 0;
  std::string communicates_by;
};

}  // namespace farandole::controller

#endif  // FARANDOLE_CONTROLLER_TYPES_JOB_STATUS_H_
