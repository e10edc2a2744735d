#ifndef FARANDOLE_WORKER_CUDA_FAKE_NCCL_TASK_H_
#define FARANDOLE_WORKER_CUDA_FAKE_NCCL_TASK_H_

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "worker/cuda/fake_nccl_link.h"
#include "worker/cuda/fake_nccl_work.h"
#include "worker/cuda/nccl_abi.h"

namespace farandole::worker::cuda {

// One collective, or all sends and receives of a group, as one rank sees it. Collectives are a star: rank 0 gathers,
// computes, hands out.
struct FakeNcclTask {
 public:
  enum Kind : int { kAllReduce, kReduceScatter, kAllGather, kBroadcast, kPairs };

  struct Pair {
    int peer;
    bool send;
    char* data;
    size_t count;
    ncclDataType_t type;
  };

  // Where and with whom it runs. What becomes of the communicator: `fail` may be called from Run().
  struct Place {
    int rank;
    int ranks;
    FakeNcclLinks* links;
    const FakeNcclInterrupt* interrupt;
    FakeNcclLinks::Deadline deadline;
    bool tells_death;
    std::function<void(ncclResult_t, const std::string& text)> fail;
  };

  // Blocks. False: it was not done, and the kernel must wait until it is aborted.
  bool Run(const Place& place) const;

  Kind kind = kPairs;
  // As the device reaches them.
  char* in = nullptr;
  char* out = nullptr;
  // Of `out` for kReduceScatter, of `in` for kAllGather.
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t op = ncclSum;
  // What this rank multiplies by first, if `scaled`.
  bool scaled = false;
  FakeNcclScalar factor;
  int root = 0;
  // Of kPairs.
  std::vector<Pair> pairs;

 private:
  struct Header;
  using Pieces = std::vector<FakeNcclLinks::Piece>;

  Header MyHeader() const;
  bool Sends(int rank) const { return kind != kBroadcast || rank == root; }
  size_t BytesIn(const Place& place) const;
  size_t BytesOut(const Place& place) const;
  bool Exchange(const Place& place, Pieces pieces, bool gathers) const;
  bool RunPairs(const Place& place) const;
  bool RunAsGuest(const Place& place) const;
  bool RunAsHost(const Place& place) const;
  // Of all ranks, from what each has sent.
  std::vector<char> Compute(const std::vector<const char*>& from, const std::vector<Header>& headers) const;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_NCCL_TASK_H_
