#ifndef FARANDOLE_WORKER_CUDA_FAKE_NCCL_LINK_H_
#define FARANDOLE_WORKER_CUDA_FAKE_NCCL_LINK_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <utility>
#include <vector>

namespace farandole::worker::cuda {

// Ends for good what waits. Any thread.
class FakeNcclInterrupt {
 public:
  FakeNcclInterrupt();
  ~FakeNcclInterrupt();
  FakeNcclInterrupt(const FakeNcclInterrupt&) = delete;
  FakeNcclInterrupt& operator=(const FakeNcclInterrupt&) = delete;

  void Raise();
  bool raised() const { return raised_; }
  // Readable from Raise() on.
  int fd() const { return fd_; }

 private:
  const int fd_;
  std::atomic<bool> raised_{false};
};

// The sockets of one rank, one to each of the others.
class FakeNcclLinks {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  // Bytes to or from a rank. Those of one rank go in order, those of several at a time.
  struct Piece {
    int peer;
    bool send;
    char* data;
    size_t bytes;
    // Called when it has arrived; false ends the exchange.
    std::function<bool()> accept;
  };

  enum Outcome {
    kDone,
    kInterrupted,
    // A rank is gone. The others have got and sent all.
    kDead,
    kRefused,
    kLate,
  };

  // `sockets` by rank, -1 for its own; owned.
  explicit FakeNcclLinks(std::vector<int> sockets) : sockets_(std::move(sockets)) {}
  ~FakeNcclLinks();
  FakeNcclLinks(const FakeNcclLinks&) = delete;
  FakeNcclLinks& operator=(const FakeNcclLinks&) = delete;

  // Returns when all pieces are through, or it cannot go on. `on_death` is called once for each rank that is gone, as
  // soon as this is seen. One thread at a time.
  Outcome Exchange(std::vector<Piece> pieces, const FakeNcclInterrupt& interrupt, Deadline deadline,
                   const std::function<void(int peer)>& on_death);
  // A few bytes to all that live, without waiting.
  void Tell(const void* data, size_t bytes);

 private:
  // What is left for one rank.
  struct Queues {
    std::deque<Piece> out;
    std::deque<Piece> in;
    bool dead = false;
  };
  enum Progress { kWaits, kMoved, kGone, kRefusal };

  static bool Idle(const std::vector<Queues>& all);
  Progress Move(int peer, std::deque<Piece>* pieces);
  // False: a piece was not accepted.
  bool MoveAll(std::vector<Queues>* all, const std::function<void(int)>& on_death);
  // False: the time is over.
  bool Wait(const std::vector<Queues>& all, const FakeNcclInterrupt& interrupt, Deadline deadline) const;

  const std::vector<int> sockets_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_FAKE_NCCL_LINK_H_
