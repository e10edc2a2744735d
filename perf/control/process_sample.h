#ifndef FARANDOLE_PERF_CONTROL_PROCESS_SAMPLE_H_
#define FARANDOLE_PERF_CONTROL_PROCESS_SAMPLE_H_

#include <sys/types.h>

#include <cstdint>

namespace farandole::perf::control {

// What another process, or this one, has used. 0 if it is gone.
struct ProcessSample {
  int64_t cpu_ns = 0;          // of all its threads, user and system
  int64_t resident_bytes = 0;  // VmRSS

  static ProcessSample Of(pid_t pid);
};

}  // namespace farandole::perf::control

#endif  // FARANDOLE_PERF_CONTROL_PROCESS_SAMPLE_H_
