#include "perf/control/process_sample.h"

#include <unistd.h>

#include <ctime>
#include <fstream>
#include <string>

namespace farandole::perf::control {

ProcessSample ProcessSample::Of(pid_t pid) {
  ProcessSample sample;
  clockid_t clock;
  timespec used;
  if (clock_getcpuclockid(pid, &clock) == 0 && clock_gettime(clock, &used) == 0) {
    sample.cpu_ns = int64_t{used.tv_sec} * 1000000000 + used.tv_nsec;
  }
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  int64_t total_pages = 0, resident_pages = 0;
  if (statm >> total_pages >> resident_pages) sample.resident_bytes = resident_pages * sysconf(_SC_PAGESIZE);
  return sample;
}

}  // namespace farandole::perf::control
