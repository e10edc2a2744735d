#ifndef FARANDOLE_WORKER_COMPLETION_RESULT_H_
#define FARANDOLE_WORKER_COMPLETION_RESULT_H_

#include <string>

namespace farandole::worker::completion {

// Outcome of what a script asked for. The numbers are those of frameworks/c_api.h, where the meanings stand.
enum class Code : int {
  kOk = 0,
  kPending = 1,
  kInvalidArgument = -1,
  kNotInitialized = -2,
  kDuplicateName = -3,
  kMismatch = -4,
  kPeerLost = -5,
  kShutDown = -6,
  kForked = -7,
  kTimeout = -8,
  kUnavailable = -9,
  kRefused = -10,
  kInternal = -11,
  kRetired = -12,
  kUnsupported = -13,
  kNoMemory = -14,
};

struct Result {
  Code code = Code::kOk;
  std::string text;  // a sentence for people when `code` is negative
  bool ok() const { return code == Code::kOk; }
  bool failed() const { return static_cast<int>(code) < 0; }
};

}  // namespace farandole::worker::completion

#endif  // FARANDOLE_WORKER_COMPLETION_RESULT_H_
