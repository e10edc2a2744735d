#ifndef FARANDOLE_WORKER_CUDA_FAKE_NCCL_H_
#define FARANDOLE_WORKER_CUDA_FAKE_NCCL_H_

#include <atomic>

#include "worker/cuda/nccl_abi.h"

// A libnccl for tests on machines without a GPU, fake_nccl.so, and what a test sets in it. Its ranks are threads or
// processes of one host; they meet over sockets. Its work is done by the streams of fake_cuda.so. It is as NCCL 2.19
// was: newer functions are missing. It proves Farandole's logic, not NCCL's.
//
// As with NCCL, a kernel whose peer is gone waits until ncclCommAbort, and a communicator must be given up by
// ncclCommAbort or ncclCommDestroy, and its streams be done, before the library is closed.
namespace farandole::worker::cuda {

// Set a field before the calls that it concerns. A text must live for ever.
struct FakeNccl {
  static constexpr int kEveryRank = -1;
  static constexpr int kNever = -1;

  std::atomic<int> version{21903};

  // What follows concerns only communicators in which this process, or thread, is this rank.
  std::atomic<int> at_rank{kEveryRank};

  // An init ends with this, without the other ranks, which wait.
  std::atomic<ncclResult_t> init_result{ncclSuccess};
  std::atomic<const char*> init_text{"the test lets it fail"};
  // An init ends by ncclCommAbort only; the other ranks wait.
  std::atomic<bool> init_never_ends{false};

  // After so many works of a communicator (a collective, or a group) have ended, ncclCommGetAsyncError says
  // `async_error`, and the kernels of later ones wait until ncclCommAbort. 0: from the end of the init on.
  std::atomic<int> async_error_after{kNever};
  std::atomic<ncclResult_t> async_error{ncclInternalError};
  std::atomic<const char*> async_text{"the test lets it fail"};

  // A function, by name, that fails at once, after so many calls that do not.
  std::atomic<const char*> failing_call{nullptr};
  std::atomic<int> failing_call_after{0};
  std::atomic<ncclResult_t> failing_result{ncclInternalError};

  // A collective or group on a non-blocking communicator answers ncclInProgress, and so do so many calls of
  // ncclCommGetAsyncError after it; the next queues the work on the stream and says ncclSuccess. What is recorded on
  // the stream before is not behind the work, as with NCCL.
  std::atomic<int> polls_in_progress{0};

  // A peer that died makes ncclCommGetAsyncError say ncclRemoteError where a kernel waits for it, as over a network.
  // Otherwise nothing tells of it, as within a host.
  std::atomic<bool> remote_error_on_death{false};

  // How long an ncclCommAbort takes before it does anything.
  std::atomic<int> abort_delay_ms{0};

  // How long an init, and a kernel, waits for the other ranks, and ncclCommDestroy for its work. Then it fails, so that
  // no test runs for ever; less than Bazel gives a small one.
  std::atomic<int> init_limit_ms{50'000};
  std::atomic<int> kernel_limit_ms{50'000};

  // What a test reads. Communicators that were neither destroyed nor aborted, also those whose init failed.
  std::atomic<int> live_communicators{0};
  // ncclCommRegister without ncclCommDeregister.
  std::atomic<int> live_registrations{0};
  // Calls of ncclCommAbort that have begun.
  std::atomic<int> aborts{0};
  // On a stream, begun and not ended.
  std::atomic<int> running_kernels{0};
  // Works that ended well, of all communicators.
  std::atomic<int> works{0};

  // The fields above as at the start. Only while there is no communicator.
  void (*reset)() = nullptr;
};

// Exported under this name: the one of this process.
using FakeNcclGetter = FakeNccl*();
inline constexpr char kFakeNcclGetter[] = "fake_nccl";

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_NCCL_H_
