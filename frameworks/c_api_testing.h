#ifndef FARANDOLE_FRAMEWORKS_C_API_TESTING_H_
#define FARANDOLE_FRAMEWORKS_C_API_TESTING_H_

#include <cstdint>

#include "frameworks/c_api.h"

// Submissions of one operation in one line, for tests.
namespace farandole::frameworks {

inline farandole_submission MakeSubmission(int operation, const char* name, const void* input, void* output, int dtype,
                                           int ndim, const int64_t* shape) {
  farandole_submission one = FARANDOLE_SUBMISSION_INITIALIZER;
  one.operation = operation;
  one.name = name;
  one.in.data = const_cast<void*>(input);
  one.out.data = output;
  one.dtype = dtype;
  one.ndim = ndim;
  one.shape = shape;
  return one;
}

// The handle, or a negative code.
inline int64_t SubmitOne(const farandole_submission& one) {
  int64_t handle = 0;
  const int code = farandole_submit(&one, 1, nullptr, &handle);
  return code == FARANDOLE_OK ? handle : code;
}

inline int64_t Allreduce(const char* name, const void* input, void* output, int dtype, int ndim, const int64_t* shape,
                         int reduce_op, double prescale = 1, double postscale = 1, uint32_t process_set = 0) {
  farandole_submission one = MakeSubmission(FARANDOLE_ALLREDUCE, name, input, output, dtype, ndim, shape);
  one.reduce_op = reduce_op;
  one.prescale = prescale;
  one.postscale = postscale;
  one.process_set = process_set;
  return SubmitOne(one);
}

inline int64_t Allgather(const char* name, const void* input, int dtype, int ndim, const int64_t* shape) {
  return SubmitOne(MakeSubmission(FARANDOLE_ALLGATHER, name, input, nullptr, dtype, ndim, shape));
}

inline int64_t Broadcast(const char* name, const void* input, void* output, int dtype, int ndim, const int64_t* shape,
                         int root_rank) {
  farandole_submission one = MakeSubmission(FARANDOLE_BROADCAST, name, input, output, dtype, ndim, shape);
  one.root_rank = root_rank;
  return SubmitOne(one);
}

inline int64_t Barrier(const char* name, uint32_t process_set = 0) {
  farandole_submission one = MakeSubmission(FARANDOLE_BARRIER, name, nullptr, nullptr, 0, 0, nullptr);
  one.process_set = process_set;
  return SubmitOne(one);
}

// Calls `poll` until it does not answer PENDING.
template <typename Poll>
int Await(Poll poll) {
  int code;
  while ((code = poll(50)) == FARANDOLE_PENDING) {
  }
  return code;
}

inline int WaitFor(int64_t handle) {
  return Await([handle](int timeout_ms) { return farandole_wait(handle, timeout_ms); });
}

inline int InitNow() {
  const int begun = farandole_init_begin();
  return begun == FARANDOLE_OK ? Await(farandole_init_poll) : begun;
}

inline int ShutdownNow() {
  const int begun = farandole_shutdown_begin();
  return begun == FARANDOLE_OK ? Await(farandole_shutdown_poll) : begun;
}

}  // namespace farandole::frameworks

#endif  // FARANDOLE_FRAMEWORKS_C_API_TESTING_H_
