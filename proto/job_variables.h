#ifndef FARANDOLE_PROTO_JOB_VARIABLES_H_
#define FARANDOLE_PROTO_JOB_VARIABLES_H_

namespace farandole {

// One setting of a whole job, and the variables that say it: the first that is set and not empty counts.
struct JobVariable {
  const char* own;
  const char* horovod;  // null: Horovod has no such variable
};

// All of them. Workers tell the controller what their environment has of these when init() runs; controller/
// job_settings.h reads them.
inline constexpr JobVariable kFusionThreshold{"FARANDOLE_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD"};
inline constexpr JobVariable kCycleTime{"FARANDOLE_CYCLE_TIME", "HOROVOD_CYCLE_TIME"};
inline constexpr JobVariable kCacheCapacity{"FARANDOLE_CACHE_CAPACITY", "HOROVOD_CACHE_CAPACITY"};
inline constexpr JobVariable kDeterministic{"FARANDOLE_DETERMINISTIC", nullptr};
inline constexpr JobVariable kStallCheckTime{"FARANDOLE_STALL_CHECK_TIME_SECONDS", "HOROVOD_STALL_CHECK_TIME_SECONDS"};
inline constexpr JobVariable kStallShutdownTime{"FARANDOLE_STALL_SHUTDOWN_TIME_SECONDS",
                                                "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"};
inline constexpr JobVariable kStallCheckDisable{"FARANDOLE_STALL_CHECK_DISABLE", "HOROVOD_STALL_CHECK_DISABLE"};
inline constexpr JobVariable kDivergence{"FARANDOLE_DIVERGENCE_SECONDS", nullptr};

inline constexpr JobVariable kJobVariables[] = {kFusionThreshold,   kCycleTime,      kCacheCapacity,
                                                kDeterministic,     kStallCheckTime, kStallShutdownTime,
                                                kStallCheckDisable, kDivergence};

// Far above what a number needs.
inline constexpr int kVariableValueBytesMax = 64;

}  // namespace farandole

#endif  // FARANDOLE_PROTO_JOB_VARIABLES_H_
