#ifndef FARANDOLE_WORKER_CUDA_FAKE_NCCL_MEETING_H_
#define FARANDOLE_WORKER_CUDA_FAKE_NCCL_MEETING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/cuda/fake_nccl_link.h"
#include "worker/cuda/nccl_abi.h"

namespace farandole::worker::cuda {

// How the ranks of a communicator find each other. Rank 0 listens on a socket in the abstract namespace, so that no
// file stays behind. When all have come it hands out the sockets between each two of them, and who they are.
class FakeNcclMeeting {
 public:
  static constexpr int kRanksMax = 64;

  struct Rank {
    int rank;
    int ranks;
    int process;
    // A process's ordinal: two processes have other devices.
    int device;
    // Of ncclCommSplit.
    int color;
    int key;
  };

  // Empty links: `interrupt` was raised.
  struct Result {
    ncclResult_t result = ncclSuccess;
    std::string text;
    std::unique_ptr<FakeNcclLinks> links;
    std::vector<Rank> ranks;
  };

  // `name` is the same on all. A rank that goes before all have come is waited for, or, if `tells_death`, a failure.
  static Result Meet(const std::string& name, const Rank& mine, const FakeNcclInterrupt& interrupt,
                     FakeNcclLinks::Deadline deadline, bool tells_death);

 private:
  FakeNcclMeeting(const std::string& name, const Rank& mine, const FakeNcclInterrupt& interrupt,
                  FakeNcclLinks::Deadline deadline, bool tells_death);
  ~FakeNcclMeeting();

  Result Host();
  Result Join();
  // Waits until one of these can be read; false: it is late, or interrupted.
  bool Readable(const std::vector<int>& sockets) const;
  bool Connect();
  // OK is an empty text.
  std::string TakeGuest();
  std::string CheckAll() const;
  bool ForgetTheGone();
  Result HandOut();
  Result Refuse(ncclResult_t result, const std::string& text);
  Result Vain() const;
  Result Wait() const;

  const std::string name_;
  const Rank mine_;
  const FakeNcclInterrupt& interrupt_;
  const FakeNcclLinks::Deadline deadline_;
  const bool tells_death_;
  int socket_ = -1;
  // By rank.
  std::vector<int> guests_;
  std::vector<Rank> ranks_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_NCCL_MEETING_H_
