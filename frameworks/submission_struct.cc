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
    if (buffer.device >= 0) return {};
    return Invalid("`", which, "` is in CUDA memory of device ", buffer.device, ", which does not exist");
  }
  if (buffer.kind != FARANDOLE_HOST) return Invalid("kind ", buffer.kind, " of memory of `", which, "` does not exist");
  if (buffer.device != 0) return Invalid("`", which, "` is in host memory, which has no device ", buffer.device);
  return {};
}

}  // namespace

int DeviceOf(const farandole_submission& submission) {
  const farandole_buffer& one = submission.in.data != nullptr ? submission.in : submission.out;
  const farandole_buffer& any = one.data != nullptr ? one : submission.in;
  return any.kind == FARANDOLE_CUDA ? any.device : -1;
}

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
  if (worker::completion::Result in = CheckBuffer("in", read->in); !in.ok()) return in;
  if (worker::completion::Result out = CheckBuffer("out", read->out); !out.ok()) return out;
  const farandole_buffer& in = read->in;
  const farandole_buffer& out = read->out;
  if (in.data != nullptr && out.data != nullptr && (in.kind != out.kind || in.device != out.device)) {
    return Invalid("`in` and `out` lie in different memory: kinds ", in.kind, " and ", out.kind, ", devices ",
                   in.device, " and ", out.device);
  }
  if (read->ready_stream != nullptr && DeviceOf(*read) < 0) {
    return Invalid("ready_stream is not NULL, but host memory has no streams");
  }
  return {};
}

}  // namespace farandole::frameworks
