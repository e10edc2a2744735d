#include "frameworks/submission_struct.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "proto/version.h"

namespace farandole::frameworks {
namespace {

// Front ends are compiled with these.
static_assert(offsetof(farandole_submission, priority) == FARANDOLE_SUBMISSION_BYTES_MIN);
static_assert(sizeof(farandole_submission) == 144);

template <typename... Args>
worker::completion::Result Invalid(const Args&... args) {
  return {worker::completion::Code::kInvalidArgument, absl::StrCat(args...)};
}

worker::completion::Result CheckBuffer(const char* which, const farandole_buffer& buffer) {
  if (buffer.kind == FARANDOLE_CUDA) {
    return Invalid("`", which,
                   "` is in CUDA memory; this build works on host memory only. Copy it to the CPU, or take a "
                   "build that can");
  }
  if (buffer.kind != FARANDOLE_HOST) return Invalid("kind ", buffer.kind, " of memory of `", which, "` does not exist");
  if (buffer.device != 0) return Invalid("`", which, "` is in host memory, which has no device ", buffer.device);
  return {};
}

}  // namespace

worker::completion::Result ReadSubmission(const farandole_submission* submissions, int index,
                                          farandole_submission* read) {
  const size_t bytes = submissions->struct_bytes;
  if (bytes < FARANDOLE_SUBMISSION_BYTES_MIN || bytes > FARANDOLE_SUBMISSION_BYTES_MAX || bytes % 8 != 0) {
    return Invalid("struct_bytes is ", bytes, "; a farandole_submission has ", FARANDOLE_SUBMISSION_BYTES_MIN, " to ",
                   FARANDOLE_SUBMISSION_BYTES_MAX, " bytes, a multiple of 8, and says how many");
  }
  const char* const from = reinterpret_cast<const char*>(submissions) + bytes * index;
  *read = {};
  std::memcpy(read, from, std::min(bytes, sizeof *read));
  if (read->struct_bytes != bytes) {
    return Invalid("struct_bytes of submission ", index, " is ", read->struct_bytes, ", that of the first one ", bytes,
                   "; all have the same");
  }
  for (size_t i = sizeof *read; i < bytes; ++i) {
    if (from[i] == 0) continue;
    return Invalid("byte ", i, " of a submission is not zero; libfarandole.so ", kVersion, " knows the first ",
                   sizeof *read, ". The front end is newer than the library: install both from one release");
  }
  if (read->operation < FARANDOLE_ALLREDUCE || read->operation > FARANDOLE_JOIN) {
    return Invalid("operation ", read->operation, " does not exist; there are ", FARANDOLE_ALLREDUCE, " to ",
                   FARANDOLE_JOIN);
  }
  if (read->ready_stream != nullptr) return Invalid("ready_stream is not NULL, but host memory has no streams");
  if (worker::completion::Result in = CheckBuffer("in", read->in); !in.ok()) return in;
  return CheckBuffer("out", read->out);
}

}  // namespace farandole::frameworks
