#ifndef FARANDOLE_FRAMEWORKS_PLUGIN_CORE_FUNCTIONS_H_
#define FARANDOLE_FRAMEWORKS_PLUGIN_CORE_FUNCTIONS_H_

#include <cstdint>

#include "frameworks/c_api.h"

namespace farandole::frameworks::plugin {

// Functions of the C ABI, from the copy of libfarandole.so that the process has.
struct CoreFunctions {
  int (*submit)(const farandole_submission* submissions, int count, const char* group, int64_t* handles);
  int (*wait)(int64_t handle, int timeout_ms);
  int (*release)(int64_t handle);
  const char* (*last_error)();
  int (*shutdown_begin)();
  int (*result_splits)(int64_t handle, int64_t* splits);
  int (*size)();
  int (*rank)();
  int (*local_size)();
  int (*local_rank)();
  int (*process_set_size)(uint32_t process_set);
  int (*process_set_rank)(uint32_t process_set);
  int (*process_set_included)(uint32_t process_set);
  // Not 0: the handler of SIGTERM that is installed is the package's, which ends the process.
  intptr_t ends_on_sigterm;
};

}  // namespace farandole::frameworks::plugin

#endif  // FARANDOLE_FRAMEWORKS_PLUGIN_CORE_FUNCTIONS_H_
