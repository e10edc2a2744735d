#ifndef FARANDOLE_BASE_START_THREAD_H_
#define FARANDOLE_BASE_START_THREAD_H_

#include <functional>
#include <string>
#include <thread>

#include "absl/status/statusor.h"

namespace farandole {

// Starts a thread of ours. `name` (at most 15 bytes) names it in ps, gdb and docs/thread-model.md. All signals are
// blocked in it: handlers run in the script's threads. RESOURCE_EXHAUSTED if the system gives no thread.
absl::StatusOr<std::thread> StartThread(const std::string& name, std::function<void()> run);

}  // namespace farandole

#endif  // FARANDOLE_BASE_START_THREAD_H_
