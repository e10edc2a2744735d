#ifndef FARANDOLE_WORKER_STAGING_STAGED_COMMUNICATOR_H_
#define FARANDOLE_WORKER_STAGING_STAGED_COMMUNICATOR_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "worker/collective/communicator.h"
#include "worker/cuda/cuda_device.h"
#include "worker/staging/chunks.h"
#include "worker/staging/device_copies.h"

namespace farandole::worker::staging {

// Collectives on the memory of CUDA devices by a communicator for host memory: copied to pinned memory, and back. For
// what NCCL does not serve: several ranks on one GPU, no NCCL at all. Start lasts as long as the collective,
// as with other media that block.
//
// Large allreduces and broadcasts go in chunks: while the host is at one, the next ones are copied to it, and the one
// before goes back. Each is a collective of its own to the host's communicator. Other collectives are one chunk.
class StagedCommunicator final : public collective::Communicator {
 public:
  // Large beside what starting a copy and a collective costs; from there on the host's media need no more at a time.
  static constexpr int64_t kChunkBytes = 4 << 20;

  // `op_timeout_ms` bounds how long the device may be at work on what comes before. `chunk_bytes` is the same on all
  // members.
  StagedCommunicator(std::unique_ptr<collective::Communicator> host, uint32_t op_timeout_ms,
                     int64_t chunk_bytes = kChunkBytes);
  ~StagedCommunicator() override;

  std::string name() const override { return "staged " + host_->name(); }
  std::string WhyNotQuicker() const override { return host_->WhyNotQuicker(); }
  int position() const override { return host_->position(); }
  int size() const override { return host_->size(); }
  // Whole batches: they are cut here, and one that goes in several collectives would fill and empty the way each time.
  int64_t FusedBytesMax(DeviceKind memory, device::Device* device) override { return INT64_MAX; }
  void Start(const collective::Instance& instance, const collective::Collective& collective, const Enqueued& enqueued,
             Done done) override;
  // What lies on a device is never withdrawn.
  void Withdraw(const collective::Instance& instance) override {}
  void Abort(const std::string& reason) override;
  Rank SuspectRank() const override { return host_->SuspectRank(); }

 private:
  absl::Status Run(const collective::Instance& instance, const collective::Collective& collective,
                   const Enqueued& enqueued);
  // Of a member without a device: nothing of this process's is read or written.
  absl::Status AddZeros(const collective::Instance& instance, const std::vector<Call>& chunks);
  absl::Status RunOn(DeviceCopies* copies, const collective::Instance& instance, const std::vector<Call>& chunks,
                     const std::vector<device::EventPtr>& ready, const Enqueued& enqueued);
  absl::StatusOr<DeviceCopies*> CopiesOf(device::Device* device);
  // The next chunk of the batch of `instance`.
  absl::Status RunOnHost(const collective::Instance& instance, const collective::Collective& collective);
  collective::Instance NextOnHost(const collective::Instance& instance);
  // Until the stream has come to the event.
  absl::Status Await(const cuda::CudaEvent& event);
  absl::Status failure() const;

  const std::unique_ptr<collective::Communicator> host_;
  const uint32_t op_timeout_ms_;
  const int64_t chunk_bytes_;
  // Of the thread that calls Start.
  std::map<device::Device*, std::unique_ptr<DeviceCopies>> copies_;
  collective::Instance on_host_;  // the last one

  mutable absl::Mutex mutex_;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker::staging

#endif  // FARANDOLE_WORKER_STAGING_STAGED_COMMUNICATOR_H_
