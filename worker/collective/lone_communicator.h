#ifndef FARANDOLE_WORKER_COLLECTIVE_LONE_COMMUNICATOR_H_
#define FARANDOLE_WORKER_COLLECTIVE_LONE_COMMUNICATOR_H_

#include <cstring>
#include <string>
#include <vector>

#include "worker/arithmetic/ordered_reduce.h"
#include "worker/collective/blocking_communicator.h"

namespace farandole::worker::collective {

// A member that is alone: what it has is the result already, but for the factors of a reduction.
class LoneCommunicator : public BlockingCommunicator {
 public:
  std::string name() const override { return "lone"; }
  int position() const override { return 0; }
  int size() const override { return 1; }
  void* Buffer(int64_t bytes) override { return nullptr; }

  absl::Status Allreduce(const Instance& instance, const arithmetic::Reduction& how, void* data,
                         int64_t count) override {
    arithmetic::OrderedReduceToAll(how, {static_cast<char*>(data)}, count);
    return absl::OkStatus();
  }
  absl::Status Allgather(const Instance& instance, const void* input, void* output,
                         const std::vector<int64_t>& byte_counts) override {
    if (input != output && byte_counts[0] > 0) std::memcpy(output, input, byte_counts[0]);
    return absl::OkStatus();
  }
  absl::Status Alltoall(const Instance& instance, const void* input, void* output,
                        const std::vector<int64_t>& send_bytes, const std::vector<int64_t>& receive_bytes) override {
    return Allgather(instance, input, output, send_bytes);
  }
  absl::Status Broadcast(const Instance& instance, int root, void* data, int64_t bytes) override {
    return absl::OkStatus();
  }
  absl::Status Barrier(const Instance& instance) override { return absl::OkStatus(); }

  // Nothing here blocks or depends on anybody: what is entered is complete.
  void Withdraw(const Instance& instance) override {}
  void Abort(const std::string& reason) override {}
  Rank SuspectRank() const override { return Rank(); }
};

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_LONE_COMMUNICATOR_H_
