#include "frameworks/c_api_answer.h"

#include <cstddef>

#include "frameworks/c_api.h"
#include "worker/os/fork_guard.h"

namespace farandole::frameworks {
namespace {

static_assert(FARANDOLE_OK == static_cast<int>(worker::completion::Code::kOk));
static_assert(FARANDOLE_PENDING == static_cast<int>(worker::completion::Code::kPending));
static_assert(FARANDOLE_INVALID_ARGUMENT == static_cast<int>(worker::completion::Code::kInvalidArgument));
static_assert(FARANDOLE_NOT_INITIALIZED == static_cast<int>(worker::completion::Code::kNotInitialized));
static_assert(FARANDOLE_DUPLICATE_NAME == static_cast<int>(worker::completion::Code::kDuplicateName));
static_assert(FARANDOLE_MISMATCH == static_cast<int>(worker::completion::Code::kMismatch));
static_assert(FARANDOLE_PEER_LOST == static_cast<int>(worker::completion::Code::kPeerLost));
static_assert(FARANDOLE_SHUT_DOWN == static_cast<int>(worker::completion::Code::kShutDown));
static_assert(FARANDOLE_FORKED == static_cast<int>(worker::completion::Code::kForked));
static_assert(FARANDOLE_TIMEOUT == static_cast<int>(worker::completion::Code::kTimeout));
static_assert(FARANDOLE_UNAVAILABLE == static_cast<int>(worker::completion::Code::kUnavailable));
static_assert(FARANDOLE_REFUSED == static_cast<int>(worker::completion::Code::kRefused));
static_assert(FARANDOLE_INTERNAL == static_cast<int>(worker::completion::Code::kInternal));
static_assert(FARANDOLE_RETIRED == static_cast<int>(worker::completion::Code::kRetired));
static_assert(FARANDOLE_UNSUPPORTED == static_cast<int>(worker::completion::Code::kUnsupported));
static_assert(FARANDOLE_NO_MEMORY == static_cast<int>(worker::completion::Code::kNoMemory));

// A fixed buffer: a std::string would want a destructor at the end of each thread of the script.
constexpr size_t kErrorBytesMax = 4096;
thread_local char last_error[kErrorBytesMax];

}  // namespace

const char* LastError() { return last_error; }

int Fail(const worker::completion::Result& result) {
  const size_t bytes = result.text.copy(last_error, kErrorBytesMax - 1);
  last_error[bytes] = '\0';
  return static_cast<int>(result.code);
}

int Answer(const worker::completion::Result& result) {
  return result.failed() ? Fail(result) : static_cast<int>(result.code);
}

worker::completion::Result NotInitialized() {
  return {worker::completion::Code::kNotInitialized, "Farandole has not been initialized; call init() first"};
}

bool InChild(int* code) {
  if (!worker::os::Forked()) return false;
  *code = Fail({worker::completion::Code::kForked,
                "this process was forked from one that had called init(); it has no connection of its own. Call "
                "Farandole in the parent only, or start the process with the \"spawn\" method and call init() in it"});
  return true;
}

}  // namespace farandole::frameworks
