#ifndef FARANDOLE_WORKER_CUDA_CUDA_DEVICE_H_
#define FARANDOLE_WORKER_CUDA_CUDA_DEVICE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "worker/cuda/driver.h"
#include "worker/device/device.h"

namespace farandole::worker::cuda {

class CudaDevice;

// While a script captures a stream into a graph, the driver forbids other threads, too, what the graph would lack:
// queries of events, and making or freeing memory; the call fails, and so does the capture. Nothing that is done here
// belongs to a graph: while this lives, the thread's calls are allowed.
class BesideCapture {
 public:
  // `api` outlives it.
  explicit BesideCapture(const DriverApi& api) : api_(api) { api_.cuThreadExchangeStreamCaptureMode(&mode_); }
  ~BesideCapture() { api_.cuThreadExchangeStreamCaptureMode(&mode_); }
  BesideCapture(const BesideCapture&) = delete;
  BesideCapture& operator=(const BesideCapture&) = delete;

 private:
  const DriverApi& api_;
  // The thread's, and the one that it had before, by turns.
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

// A moment on a stream of a CUDA device. Its CUevent goes back to the device with the last copy of the pointer.
class CudaEvent final : public device::Event {
 public:
  // Recorded already.
  CudaEvent(CudaDevice* device, CUevent event, CUstream stream, uint64_t order)
      : device_(device), event_(event), stream_(stream), order_(order) {}
  ~CudaEvent() override;
  CudaEvent(const CudaEvent&) = delete;
  CudaEvent& operator=(const CudaEvent&) = delete;

  absl::Status MakeWait(void* stream) const override;
  void* handle() const override { return event_; }
  // Whether the moment has come; the status of the device if that cannot be known any more.
  absl::StatusOr<bool> Reached() const;

  CUstream stream() const { return stream_; }
  // Of two moments of a stream the greater one includes the other.
  uint64_t order() const { return order_; }
  const CudaDevice* device() const { return device_; }

 private:
  CudaDevice* const device_;
  CUevent const event_;
  CUstream const stream_;
  const uint64_t order_;
};

// A CUDA device with its primary context, which is that of the frameworks, too. Any thread. Outlives all that it has
// given out.
class CudaDevice final : public device::Device {
 public:
  // Initialises CUDA in this process. `driver` outlives the device. UNAVAILABLE: it cannot be used, and why.
  static absl::StatusOr<std::unique_ptr<CudaDevice>> Open(const Driver* driver, int ordinal);
  ~CudaDevice() override;
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  int ordinal() const override { return ordinal_; }
  // Also FAILED_PRECONDITION: CU_STREAM_PER_THREAD, which is another stream in another thread.
  absl::StatusOr<device::EventPtr> Record(void* stream) override;
  absl::StatusOr<ForResult> AllocateResult(int64_t bytes, void* stream) override;
  absl::Status Copy(void* to, const void* from, int64_t bytes, void* stream) override;

  // The same, of its own type.
  absl::StatusOr<std::shared_ptr<const CudaEvent>> RecordEvent(CUstream stream);
  // A CUevent that goes back to the device, and the same with one: that needs no memory any more.
  struct ForNext {
    void operator()(CUevent event) const { device->GiveBack(event); }
    CudaDevice* device;
  };
  using SpareEvent = std::unique_ptr<std::remove_pointer_t<CUevent>, ForNext>;
  absl::StatusOr<SpareEvent> TakeEvent();
  absl::StatusOr<std::shared_ptr<const CudaEvent>> RecordEvent(CUstream stream, SpareEvent event);
  // Streams of one shard are recorded one at a time.
  static size_t ShardOf(CUstream stream) { return reinterpret_cast<uintptr_t>(stream) / sizeof(void*) % kShards; }

  // Memory for what is put on `stream` from now on, freed as in AllocateResult.
  absl::StatusOr<std::shared_ptr<void>> Allocate(int64_t bytes, CUstream stream) {
    return Allocate(bytes, stream, stream);
  }

  // Before others in this process need so much: asks for it (SetReclaim) where there is less.
  void MakeRoom(int64_t bytes) const;

  // While it lives the device's context is the calling thread's, BesideCapture included. Calls that make something, and
  // those on the default stream, need that.
  class Current {
   public:
    explicit Current(const CudaDevice* device);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;

   private:
    const CudaDevice* const device_;
    const BesideCapture beside_capture_;
    CUcontext before_ = nullptr;
  };

  const DriverApi& api() const { return driver_->api(); }
  // What `call` has returned: RESOURCE_EXHAUSTED without memory; DATA_LOSS if no call of this process will succeed any
  // more; otherwise UNAVAILABLE.
  absl::Status ToStatus(CUresult result, absl::string_view call) const;
  // For one that does not answer: `what` completes "GPU 0 (...) ". DATA_LOSS.
  absl::Status Lost(absl::string_view what) const;
  // Whether anything has said so of this one.
  bool lost() const { return lost_; }
  // "GPU 0 (NVIDIA H100 80GB HBM3)".
  const std::string& name() const { return name_; }
  // The same for all processes that share it, and for no other device.
  const std::string& uuid() const { return uuid_; }
  int multiprocessors() const { return multiprocessors_; }

 private:
  friend class CudaEvent;
  CudaDevice(const Driver* driver, int ordinal) : driver_(driver), ordinal_(ordinal) {}
  absl::Status Init();
  absl::StatusOr<std::shared_ptr<void>> Allocate(int64_t bytes, CUstream made_on, CUstream freed_on);
  // `in_order`: of the stream.
  CUresult TryAllocate(CUdeviceptr* memory, size_t bytes, CUstream stream, bool* in_order) const;
  absl::StatusOr<CUstream> MemoryStream();
  void GiveBack(CUevent event);

  const Driver* const driver_;
  const int ordinal_;
  CUcontext context_ = nullptr;
  std::string name_;
  std::string uuid_;
  int multiprocessors_ = 1;

  // That of a stream is held while an event is recorded there, so that `order_` rises with the recordings. Not one for
  // all: the driver may wait for room in the queue of a stream.
  static constexpr size_t kShards = 61;
  absl::Mutex record_mutexes_[kShards];
  std::atomic<uint64_t> order_{0};
  mutable std::atomic<bool> lost_{false};
  absl::Mutex memory_mutex_;
  // On which nothing but memory is made; null: none was.
  CUstream memory_stream_ ABSL_GUARDED_BY(memory_mutex_) = nullptr;
  absl::Mutex spare_mutex_;
  // As many as were ever out at a time.
  std::vector<CUevent> spare_ ABSL_GUARDED_BY(spare_mutex_);
};

// What the first device that has failed for good in this process has said; empty: none has. Any thread.
std::string FirstLoss();

// How others in this process give up what they keep of a device's memory for later (the caches of frameworks), by its
// ordinal. Allocate calls it where there is not enough, and tries again; a capture in another thread is not spoilt by
// what it frees. Null: nobody does. Any thread. From now on what was set before is not called any more; false: it still
// runs after so long.
using Reclaim = void(int ordinal);
bool SetReclaim(Reclaim* reclaim, int timeout_ms);

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_CUDA_DEVICE_H_
