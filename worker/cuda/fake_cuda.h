#ifndef FARANDOLE_WORKER_CUDA_FAKE_CUDA_H_
#define FARANDOLE_WORKER_CUDA_FAKE_CUDA_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "worker/cuda/driver_abi.h"

// A libcuda for tests on machines without a GPU, fake_cuda.so, and what a test sets in it. Its device memory faults
// when the host touches it, its streams are threads, its kernels are functions of the test. It proves Farandole's
// logic, not NVIDIA's. The threads of a process share its devices; processes do not share memory.
namespace farandole::worker::cuda {

// Runs on a stream's thread. `arguments` as those of cuLaunchKernel, copied at the launch.
using FakeKernel = void (*)(void** arguments);

struct FakeCuda {
  static constexpr size_t kUnlimited = SIZE_MAX;
  // Of streams: the lower the number, the sooner.
  static constexpr int kLeastPriority = 0;
  static constexpr int kGreatestPriority = -5;

  std::atomic<CUresult> init_result{CUDA_SUCCESS};
  std::atomic<CUresult> version_result{CUDA_SUCCESS};
  std::atomic<int> version{13000};
  std::atomic<CUresult> module_result{CUDA_SUCCESS};  // of loading one
  // At most 8.
  std::atomic<int> devices{1};
  // An entry point that this driver does not have; nullptr: it has all.
  std::atomic<const char*> missing{nullptr};
  std::atomic<bool> initialized{false};

  // Every call answers this from now on, but for texts and versions, and does nothing but count what it releases:
  // a kernel has failed, and the process can use CUDA no more. Work on streams goes on unseen.
  std::atomic<CUresult> sticky_error{CUDA_SUCCESS};
  // Whether all streams are said to be captured into a graph.
  std::atomic<bool> capturing{false};
  // Whether some thread captures: a call that would be missing in the graph is refused then, and counted, unless its
  // thread has asked for other rules.
  std::atomic<bool> capture_elsewhere{false};
  // Of cuMemAllocAsync, which not every device has.
  std::atomic<CUresult> async_memory_result{CUDA_SUCCESS};
  // cuMemAlloc and cuMemHostAlloc fail where more bytes would live.
  std::atomic<size_t> device_bytes_max{kUnlimited};
  std::atomic<size_t> host_bytes_max{kUnlimited};
  // A stream whose queue is full: recordings there wait until it is another one.
  std::atomic<CUstream> full{nullptr};
  std::atomic<int> held_up{0};  // recordings that wait now
  // Before each piece of work a stream waits for a random time up to this. Streams that are created later draw from
  // `seed` and their number.
  std::atomic<int> delay_us_max{0};
  std::atomic<unsigned> seed{1};

  // What a test reads, for instance to see that nothing has leaked.
  std::atomic<int> live_contexts{0};  // retained and not released
  std::atomic<int> live_streams{0};
  std::atomic<int> live_events{0};
  std::atomic<int> live_modules{0};
  std::atomic<int> live_device_allocations{0};
  std::atomic<int> live_host_allocations{0};
  std::atomic<size_t> live_device_bytes{0};
  std::atomic<size_t> live_host_bytes{0};
  std::atomic<int> captures_spoilt{0};      // calls that were refused for the sake of one
  std::atomic<int> stream_synchronizes{0};  // calls of cuStreamSynchronize
  std::atomic<int> streams_created{0};
  // What the stream that a call has made last is like.
  std::atomic<unsigned> stream_flags{0};
  std::atomic<int> stream_priority{0};
  std::atomic<CUstream> waiting{nullptr};  // a stream, and how often it has been made to wait for an event
  std::atomic<int> stream_waits{0};
  std::atomic<int> launches{0};        // of kernels, also by `launch`
  std::atomic<int> copies_queued{0};   // between host and device
  std::atomic<int> copies_to_host{0};  // that are done
  std::atomic<int> copies_to_device{0};

  // The fields above as at the start. Only while nothing lives.
  void (*reset)() = nullptr;
  // The host's address of device memory, for kernels; nullptr: it is none.
  char* (*on_device)(CUdeviceptr pointer) = nullptr;
  // -1: it is no device memory.
  int (*device_of_memory)(CUdeviceptr pointer) = nullptr;
  int (*device_of_stream)(CUstream stream) = nullptr;
  // Of the calling thread; 0 if it has no context, as with the runtime that NCCL uses.
  int (*current_device)() = nullptr;
  // `sizes` of its arguments in bytes. Modules, whatever their image, have all kernels that were added.
  void (*add_kernel)(const char* name, FakeKernel kernel, const std::vector<size_t>& sizes) = nullptr;
  // As cuLaunchKernel, by name: how the fake NCCL works.
  CUresult (*launch)(const char* name, CUstream stream, void** arguments) = nullptr;
};

// Exported under this name: the one of this process.
using FakeCudaGetter = FakeCuda*();
inline constexpr char kFakeCudaGetter[] = "fake_cuda";

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_CUDA_H_
