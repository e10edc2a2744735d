#ifndef FARANDOLE_TESTS_BENCH_SOCKET_RING_H_
#define FARANDOLE_TESTS_BENCH_SOCKET_RING_H_

#include <cstdint>
#include <vector>

namespace farandole::bench {

// The bound for a collective over TCP: plain sockets over loopback that carry bytes both ways and do nothing with them.
// Position p sends to p + 1 and receives from p - 1 at once; of two, each over its own direction of one connection.
class SocketRing {
 public:
  // Before the ranks part: the connections lie open in this process for all.
  explicit SocketRing(int size);

  // `bytes` of `from` to the next rank, and as many of the one before into `to`, in pieces of at most `piece_bytes`.
  // False: a connection failed.
  bool Move(int rank, const char* from, char* to, int64_t bytes, int64_t piece_bytes) const;

 private:
  struct Ends {
    int out = -1, in = -1;
  };
  std::vector<Ends> ends_;
};

}  // namespace farandole::bench

#endif  // FARANDOLE_TESTS_BENCH_SOCKET_RING_H_
