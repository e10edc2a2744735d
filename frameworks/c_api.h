#ifndef FARANDOLE_FRAMEWORKS_C_API_H_
#define FARANDOLE_FRAMEWORKS_C_API_H_

#include <stdint.h>

// The only symbols a binding may call, and the only ones that libfarandole.so exports.
//
// Thread-safe. Nothing here throws or ends the process. A call that fails returns a negative code and leaves a sentence
// for people in farandole_last_error() of the calling thread. Calls that wait for other ranks take a time in
// milliseconds and return FARANDOLE_PENDING when it has passed, so that a front end can look for signals in between (50
// ms is a good slice). Link with -lfarandole and start the program with `farandole run -np 2 ./program`. In a child of
// fork() every call but version and last_error fails with FARANDOLE_FORKED.

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
  FARANDOLE_NO_MEMORY = -14,    // a submission's `allocate` gave no memory for its result, or its device has none
};

// Data types: 0 uint8, 1 int8, 2 uint16, 3 int16, 4 int32, 5 int64, 6 float16, 7 float32, 8 float64, 9 bool, 10
// bfloat16. Reduce operations: 0 Average, 1 Sum, 2 Adasum, 3 Min, 4 Max, 5 Product. (proto/farandole/v1/types.proto.)

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

// Ends open operations with FARANDOLE_SHUT_DOWN, leaves the job, frees everything. Idempotent. Bounded, callbacks that
// run aside: after a few seconds without an answer it leaves anyway; after five minutes if a device has not done what
// it was given.
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
// Elastic jobs: this process has the state of the training in the present membership, its own or one it was handed. Of
// those that come together in the next one, rank 0 is one that said so last, if there is any: a script with a loop of
// its own calls it once all have the state, otherwise a newcomer may become rank 0. No effect outside of them.
FARANDOLE_API int farandole_confirm_state(void);

// Rank 0 writes a timeline of the job to `path` (docs/timeline.md); on the other ranks OK and no effect. `mark_cycles`:
// 0 or 1. FARANDOLE_INVALID_ARGUMENT: the file cannot be written, or a timeline is being written already. Stopping is
// idempotent; the file is complete when it returns.
FARANDOLE_API int farandole_start_timeline(const char* path, int mark_cycles);
FARANDOLE_API int farandole_stop_timeline(void);

// What of the libraries for GPUs is here, also before init. 1: it is here, and collectives on the memory of GPUs go
// through it. 0: it is here, but such collectives go through host memory, since this build has no kernels for GPUs.
// FARANDOLE_UNAVAILABLE: it is not here or cannot be used; farandole_last_error() says why.
//   FARANDOLE_CUDA_DRIVER: `*number` is 13000 where `*text` is "CUDA 13.0 (PATH)". Nothing is initialised.
//   FARANDOLE_CUDA_DEVICES: `*number` of them, `*text` their names. Initialises CUDA in this process: what it forks
//   from then on cannot use CUDA.
//   FARANDOLE_NCCL: `*number` is 22809 where `*text` is "NCCL 2.28.9 (PATH)". `wheel`: the file of the wheel
//   nvidia-nccl, where the loader does not look, or NULL; it counts if the process has no NCCL yet and the user names
//   none.
// What was found stays in the process. `*text` is valid until the next such call of the thread.
enum { FARANDOLE_CUDA_DRIVER = 1, FARANDOLE_CUDA_DEVICES = 2, FARANDOLE_NCCL = 3 };
FARANDOLE_API int farandole_gpu_library(int which, const char* wheel, int* number, const char** text);

// What the first GPU that has failed for good in this process has said, for instance since a kernel has read where
// nothing is: no call of CUDA's succeeds in this process any more. NULL: none has. Valid until the next such call of
// the thread. In a child of fork() what its parent had said before.
FARANDOLE_API const char* farandole_gpu_failure(void);

// How a framework gives up memory of a CUDA device that it keeps for later: called where there is not enough for what
// is needed here, which is tried once more then. From the thread that executes ("farandole-exec"), which all ranks wait
// for; must not throw, call this function, wait for anything of this library, nor need a lock that a thread holds which
// calls this function or farandole_shutdown_poll. NULL: nobody is asked. From now on the one before is not called;
// FARANDOLE_PENDING: after `timeout_ms` it still runs; call again. Counts for the process, also before init.
FARANDOLE_API int farandole_gpu_set_reclaim(void (*reclaim)(int device), int timeout_ms);

// The RDMA ports over which collectives go between hosts, or would go, by what the environment says; also before init.
// FARANDOLE_OK: `*text` names them, valid until the next such call of the thread. FARANDOLE_UNAVAILABLE: none can be
// used; FARANDOLE_INVALID_ARGUMENT: a variable names what is not there; farandole_last_error() says why.
FARANDOLE_API int farandole_rdma_ports(const char** text);

// Memory of a tensor. FARANDOLE_CUDA: allocated on a CUDA device in its primary context; `in` and `out` of an operation
// lie on the same one.
enum { FARANDOLE_HOST = 0, FARANDOLE_CUDA = 1 };
typedef struct farandole_buffer {
  void* data;      // contiguous; `in` is only read
  int32_t kind;    // FARANDOLE_HOST or FARANDOLE_CUDA
  int32_t device;  // which of that kind; 0 for host memory
} farandole_buffer;

enum {
  // out = postscale * reduce(prescale * in); may be in place. Integers are scaled in double and truncated. Adasum takes
  // floating-point numbers; each tensor, also of a group, has its own dot products.
  FARANDOLE_ALLREDUCE = 1,
  // Concatenates along dimension 0, which may differ between ranks.
  FARANDOLE_ALLGATHER = 2,
  // On `root_rank`, a rank of the job, `in` is read; elsewhere it is ignored and may be NULL.
  FARANDOLE_BROADCAST = 3,
  // Done when every member has submitted it. No tensor.
  FARANDOLE_BARRIER = 4,
  // Sends rows of dimension 0 to the members: the first splits[0] to member 0, the next splits[1] to member 1 and so
  // on. `splits` NULL: the same number to each, which must divide dimension 0; otherwise one per member, not negative,
  // with a sum of at most dimension 0. The result is what has come from member 0, 1, ...
  FARANDOLE_ALLTOALL = 5,
  // out = rows of postscale * reduce(prescale * in), cut along dimension 0 as evenly as possible: of r rows in a
  // process set of n, position p gets r / n, and one more if p < r % n. Average and Sum only.
  FARANDOLE_REDUCESCATTER = 6,
  // This rank has no more data: until all ranks have joined it adds zeros to the allreduces of the others. Done when
  // all have; the value of the handle is the rank that joined last. Counters of made-up names begin again. Of all
  // ranks; has neither name nor tensor.
  FARANDOLE_JOIN = 7,
};

// One operation. Begin with FARANDOLE_SUBMISSION_INITIALIZER. Zeros mean "not given", but for what an allreduce or a
// reducescatter multiplies by (`prescale`, `postscale`: 0 gives zeros) and for `dtype`, `reduce_op` and `root_rank`,
// where 0 is a value like others. What an operation does not use is ignored.
//
// The struct grows at its end. `struct_bytes` is the size that the caller was compiled with, a multiple of 8 from
// FARANDOLE_SUBMISSION_BYTES_MIN to FARANDOLE_SUBMISSION_BYTES_MAX; of a shorter one the rest counts as zeros, and a
// longer one is refused unless all that this library does not know is zero. In an array all have the same.
//
// No operation has a timeout of its own: one that a single rank gave up would leave the others waiting or with data
// that this rank never saw. FARANDOLE_OP_TIMEOUT_SECONDS bounds a collective for all ranks together.
typedef struct farandole_submission {
  uint32_t struct_bytes;
  int32_t operation;     // FARANDOLE_ALLREDUCE...
  const char* name;      // NULL: made from the operation and a counter of the process set
  const int64_t* shape;  // `ndim` dimensions
  const int64_t* splits;
  int32_t ndim;  // at most 64
  int32_t splits_count;
  int32_t dtype;
  int32_t reduce_op;
  double prescale;
  double postscale;
  int32_t root_rank;
  uint32_t process_set;  // 0: all ranks
  farandole_buffer in;
  farandole_buffer out;
  // Up to here every caller has it.
  int32_t priority;  // what is ready at the same time goes out in falling priority
  int32_t owner;     // of the callbacks below, from farandole_callbacks_begin; 0: they are never unloaded
  // Device memory: work queued there so far comes first, NULL is the default stream. It lives until the handle has been
  // released.
  void* ready_stream;
  void* (*allocate)(void* ctx, int ndim, const int64_t* shape);
  void (*done)(void* ctx, int code, const char* text, void* done_event);
  void* ctx;
} farandole_submission;
// Nothing given, and nothing scaled.
#define FARANDOLE_SUBMISSION_INITIALIZER \
  { sizeof(farandole_submission), 0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, {0, 0, 0}, {0, 0, 0}, 0, 0, 0, 0, 0, 0 }
#define FARANDOLE_SUBMISSION_BYTES_MIN 104
#define FARANDOLE_SUBMISSION_BYTES_MAX 4096

// Submits `count` operations. Never blocks, calls no callback, and keeps no string, shape or splits beyond the call.
// FARANDOLE_OK, or a negative code, and then none was submitted, no callback of theirs will run, and `handles` is
// zeros.
//
// `group` not NULL, or `count` above 1: they are executed together or not at all. They are allreduces, allgathers or
// reducescatters, all of one operation and process set, submitted alike on all ranks. `group` NULL: a name is made for
// it. A member's `name` NULL: made from the group's.
//
// Device memory: nothing here waits for the device. The operation is enqueued when all ranks have it, behind what was
// on `ready_stream` at the call, and done when the device is. What is to read its result waits on the device
// (farandole_wait_on_stream), not here. Once it is enqueued it is not taken back, so a rank that never submits it ends
// the membership.
//
// Memory: `in` and `out` belong to the caller and must stay untouched until the operation is done. `out.data` must be
// NULL for an allgather and an alltoall, whose results have a size that only the ranks together know, and may be NULL
// for a reducescatter with `allocate`. Their result goes into what `allocate` returns; without `allocate` that of an
// allgather or alltoall belongs to the handle (farandole_result_copy).
//
// `handles` has room for `count` handles (> 0), which are there before the first callback runs, and are released with
// farandole_release. It may be NULL if each operation has `done`, and what makes a result has `allocate`; nothing has
// to be released then.
//
// Callbacks. They get `ctx`, must not throw, and no lock of ours is held.
//   allocate: from the thread that executes ("farandole-exec"), once per operation, also for a result without elements.
//     Once more if another rank has changed its part before the collective began: then the last memory counts. All
//     ranks wait for it, and farandole_shutdown_poll does, so it must be quick, call nothing of this library, and need
//     no lock that a thread holds which calls farandole_shutdown_poll. NULL, where elements are to come: the
//     collective is gone through for the other ranks' sake, in memory of ours that is freed with the operation, which
//     ends with FARANDOLE_NO_MEMORY on this rank only.
//   done: exactly once, when the operation is done (its handle as well), from a thread of its own ("farandole-done"),
//     one at a time in the order in which operations end; a slow one delays the others, but no collective. `code` is
//     what farandole_wait would return; `text` says why, "" if it went well, and is valid during the call. `done_event`
//     is NULL: the device is done as well. It may submit (with names, since made-up ones depend on the order of
//     submissions), wait, release and begin a shutdown, but farandole_shutdown_poll refuses to wait for it there.
//     farandole_shutdown_poll returns FARANDOLE_OK when all have run; open operations end with FARANDOLE_SHUT_DOWN.
FARANDOLE_API int farandole_submit(const farandole_submission* submissions, int count, const char* group,
                                   int64_t* handles);

// A front end that may be unloaded gives its callbacks an owner (> 0), and withdraws them before.
FARANDOLE_API int farandole_callbacks_begin(void);
// None of the owner's callbacks begins any more. FARANDOLE_OK: none runs either, and the owner is forgotten.
// FARANDOLE_PENDING: after `timeout_ms` one still runs, or the caller is one; call again. Its operations go on, and
// keep using `in`, `out` and what `allocate` has returned until their handles are done; those without a handle until
// farandole_shutdown_poll has returned FARANDOLE_OK. An `allocate` that is withdrawn counts as one that returned NULL.
// Submissions of a withdrawn owner are refused.
FARANDOLE_API int farandole_callbacks_withdraw(int owner, int timeout_ms);

// Value of a join (a rank of the job), or of a change of process sets (the id), that is done.
FARANDOLE_API int farandole_result_value(int64_t handle, int64_t* value);

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
// places of equally large memory on all members and in place, copy nothing. Waits for an answer of the agent, up to 30
// s. `*data` is valid until it is freed, also after shutdown. Lasts for one life of the job: later ones reduce it like
// any other. FARANDOLE_UNAVAILABLE: there is none, and why (members on several hosts, too much for the host).
FARANDOLE_API int farandole_memory_allocate(uint32_t process_set, int64_t bytes, void** data);
// Nothing may touch it any more. Also after shutdown.
FARANDOLE_API int farandole_memory_free(void* data);

// Done: FARANDOLE_OK. Not yet: FARANDOLE_PENDING. Failed: a negative code, again and again until released. A handle
// that was never given out, or was released: FARANDOLE_INVALID_ARGUMENT. timeout_ms 0 polls.
FARANDOLE_API int farandole_wait(int64_t handle, int timeout_ms);
// For an operation on a device: FARANDOLE_OK when it is enqueued there, and what is put on `stream` from now on comes
// after its result. If it fails later, the result is undefined, and farandole_wait says so. FARANDOLE_PENDING: not so
// after `timeout_ms`. A negative code: it failed before. On host memory: as farandole_wait.
FARANDOLE_API int farandole_wait_on_stream(int64_t handle, void* stream, int timeout_ms);
// Of several, in their order: waits so for the first, up to timeout_ms, and looks at the others. How many of them, from
// the first on, are enqueued, or done and well, as above. 0: the first one is not, has failed, or is no handle, which
// farandole_wait_on_stream tells. FARANDOLE_INVALID_ARGUMENT: `handles` is NULL.
FARANDOLE_API int farandole_wait_each(const int64_t* handles, int count, void* stream, int timeout_ms);
// Of an allgather or alltoall that is done, or enqueued on a device. `shape` has room for 64.
FARANDOLE_API int farandole_result_shape(int64_t handle, int* ndim, int64_t* shape);
// Of such an alltoall: how many rows came from each member. `splits` has room for all of them.
FARANDOLE_API int farandole_result_splits(int64_t handle, int64_t* splits);
// Copies the result of an allgather or alltoall that is done, and had no `allocate`, to `output` of exactly `bytes`.
FARANDOLE_API int farandole_result_copy(int64_t handle, void* output, int64_t bytes);
// The same of one that is enqueued on a device, to memory of that device: puts the copy on `stream`, which waits for
// the result already (farandole_wait_on_stream).
FARANDOLE_API int farandole_result_copy_on_stream(int64_t handle, void* output, int64_t bytes, void* stream);
// Forgets a handle that is done, well or not (farandole_wait says that). FARANDOLE_PENDING if it is not: its memory is
// still in use.
FARANDOLE_API int farandole_release(int64_t handle);
// Of several: forgets those that are done and well. Moves the others, but for what is no handle, to the front, in their
// order, and returns how many they are. FARANDOLE_INVALID_ARGUMENT: `handles` is NULL.
FARANDOLE_API int farandole_release_each(int64_t* handles, int count);

#ifdef __cplusplus
}
#endif

#endif  // FARANDOLE_FRAMEWORKS_C_API_H_
