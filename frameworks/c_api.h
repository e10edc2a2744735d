#ifndef FARANDOLE_FRAMEWORKS_C_API_H_
#define FARANDOLE_FRAMEWORKS_C_API_H_

#include <stdint.h>

// The only symbols a binding may call, and the only ones that libfarandole.so exports.
//
// Thread-safe. Nothing here throws or ends the process. A call that fails returns a negative code and leaves a sentence
// for people in farandole_last_error() of the calling thread. Blocking calls take a time in milliseconds and return
// FARANDOLE_PENDING when it has passed, so that a front end can look for signals in between (50 ms is a good slice).
// In a child of fork() every call but version and last_error fails with FARANDOLE_FORKED.

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define FARANDOLE_API __attribute__((visibility("default")))
#else
#define FARANDOLE_API
#endif

enum {
  FARANDOLE_OK = 0,
  FARANDOLE_PENDING = 1,
  FARANDOLE_INVALID_ARGUMENT = -1,  // bad argument on this rank: dtype, shape, root, handle
  FARANDOLE_NOT_INITIALIZED = -2,
  FARANDOLE_DUPLICATE_NAME = -3,  // a tensor of that name is still being processed in this process set
  FARANDOLE_MISMATCH = -4,        // ranks disagree about the tensor; every member gets the same sentence
  FARANDOLE_PEER_LOST = -5,       // a member died or left, or its data plane failed
  FARANDOLE_SHUT_DOWN = -6,       // this process has called shutdown
  FARANDOLE_FORKED = -7,          // forked from an initialised process
  FARANDOLE_TIMEOUT = -8,         // init: the other ranks did not come in time
  FARANDOLE_UNAVAILABLE = -9,     // init: no agent or no controller
  FARANDOLE_REFUSED = -10,        // init: the controller refuses this worker (rank held, version, size, token)
  FARANDOLE_INTERNAL = -11,
  FARANDOLE_RETIRED = -12,      // init: this worker's place in an elastic job was taken away
  FARANDOLE_UNSUPPORTED = -13,  // no collective combines tensors in this way
};

// Data types and reduce operations have the numbers of proto/farandole/v1/types.proto.

// "major.minor.patch", static.
FARANDOLE_API const char* farandole_version(void);
// Sentence about the last failed call of this thread; valid until its next call. "" if none.
FARANDOLE_API const char* farandole_last_error(void);

// init: `begin` reads the environment (docs/configuration.md), `poll` waits for all ranks of the job. A second init
// while initialised is OK and changes nothing. After a failure init may be called again.
FARANDOLE_API int farandole_init_begin(void);
FARANDOLE_API int farandole_init_poll(int timeout_ms);
// Gives up an init that is under way (Ctrl-C). Idempotent.
FARANDOLE_API int farandole_init_cancel(void);

// Ends open operations with FARANDOLE_SHUT_DOWN, leaves the job, frees everything. Idempotent. Bounded: after a few
// seconds without an answer it leaves anyway.
FARANDOLE_API int farandole_shutdown_begin(void);
FARANDOLE_API int farandole_shutdown_poll(int timeout_ms);

// 1 or 0.
FARANDOLE_API int farandole_is_initialized(void);
// The value, or FARANDOLE_NOT_INITIALIZED.
FARANDOLE_API int farandole_rank(void);
FARANDOLE_API int farandole_size(void);
FARANDOLE_API int farandole_local_rank(void);
FARANDOLE_API int farandole_local_size(void);
FARANDOLE_API int farandole_cross_rank(void);
FARANDOLE_API int farandole_cross_size(void);
FARANDOLE_API int farandole_is_homogeneous(void);

// Elastic jobs: how the next membership would differ from the present one as things stand: processes that wait to be
// taken in, and members that are to leave. Not 0, 0: all should agree to call shutdown and init soon. 0, 0 outside of
// elastic jobs.
FARANDOLE_API int farandole_membership_changes(int64_t* added, int64_t* removed);

// Rank 0 writes a timeline of the job to `path` (docs/timeline.md); on the other ranks OK and no effect. `mark_cycles`:
// 0 or 1. FARANDOLE_INVALID_ARGUMENT: the file cannot be written, or a timeline is being written already. Stopping is
// idempotent; the file is complete when it returns.
FARANDOLE_API int farandole_start_timeline(const char* path, int mark_cycles);
FARANDOLE_API int farandole_stop_timeline(void);

// Submissions return a handle (> 0) or a negative code, never block, and keep `name`, `shape` not beyond the call. The
// memory of tensors is contiguous, belongs to the caller and must stay untouched until the handle is done. `name` NULL:
// one is made from the operation and a counter of the process set. `ndim` at most 64. `process_set` 0 is all ranks.

// output = postscale * reduce(prescale * input); may be in place. Integers are scaled in double and truncated. Adasum
// takes floating-point numbers; each tensor, also of a group, has its own dot products.
FARANDOLE_API int64_t farandole_allreduce(const char* name, const void* input, void* output, int dtype, int ndim,
                                          const int64_t* shape, int reduce_op, double prescale, double postscale,
                                          uint32_t process_set);
// Concatenates along dimension 0, which may differ between ranks. The result belongs to the handle.
FARANDOLE_API int64_t farandole_allgather(const char* name, const void* input, int dtype, int ndim,
                                          const int64_t* shape, uint32_t process_set);
// Sends rows of dimension 0 to the members: the first splits[0] to member 0, the next splits[1] to member 1 and so on.
// `splits` NULL: the same number to each, which must divide dimension 0; otherwise one per member, not negative, with a
// sum of at most dimension 0. The result, what has come from member 0, 1, ..., belongs to the handle.
FARANDOLE_API int64_t farandole_alltoall(const char* name, const void* input, int dtype, int ndim, const int64_t* shape,
                                         int splits_count, const int64_t* splits, uint32_t process_set);
// output = rows of postscale * reduce(prescale * input), cut along dimension 0 as evenly as possible: of r rows in a
// process set of n, position p gets r / n, and one more if p < r % n. Average and Sum only.
FARANDOLE_API int64_t farandole_reducescatter(const char* name, const void* input, void* output, int dtype, int ndim,
                                              const int64_t* shape, int reduce_op, double prescale, double postscale,
                                              uint32_t process_set);
// `root_rank` is a rank of the job. On the root `input` is read; elsewhere it is ignored and may be NULL.
FARANDOLE_API int64_t farandole_broadcast(const char* name, const void* input, void* output, int dtype, int ndim,
                                          const int64_t* shape, int root_rank, uint32_t process_set);
// Done when every member has called it.
FARANDOLE_API int64_t farandole_barrier(const char* name, uint32_t process_set);

// Several allreduces that are executed together or not at all; element i of each array describes tensor i. `name` is
// that of the group, NULL: one is made. All arguments must be equal on all ranks. Fills `handles` with `count` handles
// and returns FARANDOLE_OK, or a negative code, and then none was submitted.
FARANDOLE_API int farandole_grouped_allreduce(const char* name, int count, const void* const* inputs,
                                              void* const* outputs, const int* dtypes, const int* ndims,
                                              const int64_t* const* shapes, int reduce_op, double prescale,
                                              double postscale, uint32_t process_set, int64_t* handles);
// The same for allgathers, whose results belong to their handles, and for reducescatters.
FARANDOLE_API int farandole_grouped_allgather(const char* name, int count, const void* const* inputs, const int* dtypes,
                                              const int* ndims, const int64_t* const* shapes, uint32_t process_set,
                                              int64_t* handles);
FARANDOLE_API int farandole_grouped_reducescatter(const char* name, int count, const void* const* inputs,
                                                  void* const* outputs, const int* dtypes, const int* ndims,
                                                  const int64_t* const* shapes, int reduce_op, double prescale,
                                                  double postscale, uint32_t process_set, int64_t* handles);

// This rank has no more data: until all ranks have joined it adds zeros to the allreduces of the others. Done when all
// have; the value of the handle is the rank that joined last. Counters of made-up names begin again.
FARANDOLE_API int64_t farandole_join(void);
// Value of a join (a rank of the job), or of a change of process sets (the id), that is done.
FARANDOLE_API int farandole_result_value(int64_t handle, int64_t* value);

// Of the calling thread's later submissions: what is ready at the same time goes out in falling priority. 0 at first.
FARANDOLE_API int farandole_set_priority(int priority);

// Process sets: ranks that run collectives among themselves. Adding and removing is done by all ranks of the job, each
// with the same arguments, and is complete on all when the handle is done. The value of the handle is the id; ids are
// used again after a removal. A set of the ranks of another one fails with FARANDOLE_INVALID_ARGUMENT.
FARANDOLE_API int64_t farandole_add_process_set(int count, const int* ranks);
FARANDOLE_API int64_t farandole_remove_process_set(uint32_t process_set);
// FARANDOLE_INVALID_ARGUMENT: there is no such set, or (rank only) this process is no member.
FARANDOLE_API int farandole_process_set_size(uint32_t process_set);
FARANDOLE_API int farandole_process_set_rank(uint32_t process_set);
// 1 or 0.
FARANDOLE_API int farandole_process_set_included(uint32_t process_set);
// The ranks, ascending; `ranks` has room for farandole_process_set_size of them.
FARANDOLE_API int farandole_process_set_ranks(uint32_t process_set, int* ranks);

// Memory that all members of a process set on one host can read and write: allreduces of tensors in it, at the same
// places of equally large memory on all members and in place, copy nothing. Blocks for an answer of the agent. `*data`
// is valid until it is freed, also after shutdown. Lasts for one life of the job: later ones reduce it like any other.
// FARANDOLE_UNAVAILABLE: there is none, and why (members on several hosts, too much for the host).
FARANDOLE_API int farandole_memory_allocate(uint32_t process_set, int64_t bytes, void** data);
// Nothing may touch it any more. Also after shutdown.
FARANDOLE_API int farandole_memory_free(void* data);

// Done: FARANDOLE_OK. Not yet: FARANDOLE_PENDING. Failed: a negative code, again and again until released. A handle
// that was never given out, or was released: FARANDOLE_INVALID_ARGUMENT. timeout_ms 0 polls.
FARANDOLE_API int farandole_wait(int64_t handle, int timeout_ms);
// Of an allgather or alltoall that is done. `shape` has room for 64.
FARANDOLE_API int farandole_result_shape(int64_t handle, int* ndim, int64_t* shape);
// Of an alltoall that is done: how many rows came from each member. `splits` has room for all of them.
FARANDOLE_API int farandole_result_splits(int64_t handle, int64_t* splits);
// Copies the result of an allgather or alltoall that is done to `output` of exactly `bytes`.
FARANDOLE_API int farandole_result_copy(int64_t handle, void* output, int64_t bytes);
// Forgets a handle that is done. FARANDOLE_PENDING if it is not: its memory is still in use.
FARANDOLE_API int farandole_release(int64_t handle);

#ifdef __cplusplus
}
#endif

#endif  // FARANDOLE_FRAMEWORKS_C_API_H_
