#ifndef FARANDOLE_FRAMEWORKS_JAX_CORE_FUNCTIONS_H_
#define FARANDOLE_FRAMEWORKS_JAX_CORE_FUNCTIONS_H_

#include <cstdint>

#include "frameworks/c_api.h"

namespace farandole::frameworks::jax {

// Functions of the C ABI, from the copy of libfarandole.so that the process has.
struct CoreFunctions {
  int (*submit)(const farandole_submission* submissions, int count, const char* group, int64_t* handles);
  int (*wait)(int64_t handle, int timeout_ms);
  int (*release)(int64_t handle);
  const char* (*last_error)();
  int (*shutdown_begin)();
};

}  // namespace farandole::frameworks::jax

#endif  // FARANDOLE_FRAMEWORKS_JAX_CORE_FUNCTIONS_H_
