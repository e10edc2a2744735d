#ifndef FARANDOLE_WORKER_SCHEDULE_RELAYED_ALLTOALL_H_
#define FARANDOLE_WORKER_SCHEDULE_RELAYED_ALLTOALL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"

namespace farandole::worker::schedule {

// What one member does in an alltoall over channels to those at a distance of a power of two (Bruck), as memory and
// arithmetic; whoever has the channels moves the bytes. There are R = ceil(log2 N) rounds. In round k it sends to
// position + 2^k, and gets from position - 2^k, in one piece all blocks that still have 2^k of their way before them:
// those that go a distance d with bit k of d set, in order of d. First go their sizes, 8 bytes each, since nobody but
// source and destination knows them.
//
// A block is sent once for each bit of its distance. If all are alike, of S bytes, every member sends R / 2 times its
// N S bytes, and 4 N R bytes of sizes; at a time it holds what has reached it and has to go on, about as much as it
// sends in all, or as one source sends if that sends most of everything.
class RelayedAlltoall {
 public:
  // Arguments as Communicator::Alltoall; the memory outlives this.
  RelayedAlltoall(int position, const char* input, char* output, const std::vector<int64_t>& send_bytes,
                  const std::vector<int64_t>& receive_bytes);

  int rounds() const { return rounds_; }
  // Whom it sends to in a round, and whom it gets from.
  int To(int round) const { return (position_ + (1 << round)) % size_; }
  int From(int round) const { return (position_ - (1 << round) + size_) % size_; }

  // Round by round: the sizes of what it sends, and that itself, in one piece. RESOURCE_EXHAUSTED.
  std::vector<int64_t> Sizes(int round) const;
  absl::Status TakeOut(int round);
  const char* sent() const { return sent_.get(); }
  // The sizes of what comes, as many as it sends itself. INTERNAL: they cannot be; RESOURCE_EXHAUSTED.
  absl::Status Expect(int round, const std::vector<int64_t>& sizes);
  // Where that has to go, and that it has come.
  char* arriving() { return arriving_.get(); }
  void PutIn(int round);

 private:
  struct Block {
    std::shared_ptr<char[]> memory;  // null: in the input
    const char* data = nullptr;
    int64_t bytes = 0;
  };

  // Of the blocks that move in a round.
  std::vector<int> Distances(int round) const;

  const int position_, size_;
  int rounds_ = 0;
  // By the whole distance that they go. What has arrived is in the output and no longer here.
  std::vector<Block> blocks_;
  // By the distance that they have come.
  std::vector<char*> places_;
  std::vector<int64_t> expected_;
  std::vector<int64_t> arriving_sizes_;
  std::shared_ptr<char[]> sent_, arriving_;
};

}  // namespace farandole::worker::schedule

#endif  // FARANDOLE_WORKER_SCHEDULE_RELAYED_ALLTOALL_H_
