#ifndef FARANDOLE_WORKER_STAGING_STAGED_COMMUNICATOR_H_
#define FARANDOLE_WORKER_STAGING_STAGED_COMMUNICATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/collective/communicator.h"
#include "worker/cuda/cuda_device.h"
#include "worker/cuda/cuda_stream.h"

namespace farandole::worker::staging {

// Collectives on the memory of CUDA devices by a communicator for host memory: copied to pinned memory, and back. For
// what NCCL does not serve: several ranks on one GPU, no NCCL at all. Start lasts as long as the collective,
// as with other media that block.
class StagedCommunicator final : public collective::Communicator {
 public:
  // `op_timeout_ms` bounds how long the device may be at work on what comes before.
  StagedCommunicator(std::unique_ptr<collective::Communicator> host, uint32_t op_timeout_ms);
  ~StagedCommunicator() override;

  std::string name() const override { return "staged " + host_->name(); }
  int position() const override { return host_->position(); }
  int size() const override { return host_->size(); }
  int64_t FusedBytesMax(DeviceKind memory, device::Device* device) override;
  void Start(const collective::Instance& instance, const collective::Collective& collective, const Enqueued& enqueued,
             Done done) override;
  // What lies on a device is never withdrawn.
  void Withdraw(const collective::Instance& instance) override {}
  void Abort(const std::string& reason) override;
  Rank SuspectRank() const override { return host_->SuspectRank(); }

 private:
  struct Copy {
    void* device;
    char* host;
    int64_t bytes;
  };
  // One collective on its way.
  struct Staged {
    collective::Collective collective;  // on host memory
    std::vector<Copy> loads, stores;
  };
  // Of a device: its stream, and memory of the host that it copies from and to.
  struct Side {
    cuda::CudaDevice* device = nullptr;
    std::unique_ptr<cuda::CudaStream> stream;
    std::shared_ptr<char> memory;
    int64_t memory_bytes = 0;
  };
  class Stager;

  absl::Status Run(const collective::Instance& instance, const collective::Collective& collective,
                   const Enqueued& enqueued);
  absl::Status RunOn(Side* side, const collective::Instance& instance, const collective::Collective& collective,
                     const Enqueued& enqueued);
  // After a failure: until the device is done with the memory of the caller, or does not seem to come to that.
  void Settle(Side* side);
  absl::StatusOr<Side*> SideOf(device::Device* device);
  absl::Status Reserve(Side* side, int64_t bytes);
  absl::Status RunOnHost(const collective::Instance& instance, const collective::Collective& collective);
  // Until the stream has come to the event.
  absl::Status Await(const cuda::CudaEvent& event);
  absl::Status failure() const;

  const std::unique_ptr<collective::Communicator> host_;
  const uint32_t op_timeout_ms_;
  // Of the thread that calls Start.
  std::map<device::Device*, Side> sides_;

  mutable absl::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::staging

#endif  // FARANDOLE_WORKER_STAGING_STAGED_COMMUNICATOR_H_
