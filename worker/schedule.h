#ifndef FARANDOLE_WORKER_SCHEDULE_H_
#define FARANDOLE_WORKER_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace farandole {

// What one member does in a collective, as arithmetic: no pointer, no clock, no I/O. Members are positions 0 to
// size - 1. The operand is cut into numbered blocks, the same on all members; LaneLayout says where they lie.
//
// Rules that every schedule keeps, and that the checker holds against all sizes from 1 to 33:
//   - all members have the same number of rounds; a send in a round meets a receive of the same block in the same
//     round of the peer, and the other way round;
//   - at most one send and one receive per peer and round, at most one of these receives adds;
//   - in a round no block is both sent and replaced, so its transfers may run at once, in any order. What is received
//   to
//     be added is added when all transfers of the round are done: a block may be sent and added to in one round.
// It follows that no schedule can deadlock: who has finished round r has posted all that others need to finish it.
struct Step {
  enum class Kind : uint8_t {
    kSend,           // block to peer
    kReceive,        // block from peer, replaces what is there
    kReceiveReduce,  // block from peer, added to what is there; the summand of the lower position comes first
    kCopy,           // own contribution into its block of the output; no peer
  };
  Kind kind;
  int peer;
  int block;
};

// The block of a message without data, whose arrival is what counts. Blocks of zero bytes, in contrast, are not sent.
inline constexpr int kToken = -1;

using Round = std::vector<Step>;

struct Schedule {
  std::string name;
  std::vector<Round> rounds;
};

// All positions that any schedule of this size makes `position` talk to: those at a distance of a power of two, in
// either direction. Sorted; symmetric.
std::vector<int> PeersOf(int position, int size);

// Ring allreduce over `size` blocks. 2(N-1) rounds, each with one send to the right and one receive from the left;
// every member sends and receives 2(N-1)/N of the operand, which is the least that is possible.
//   reduce:  round r in [0, N-1): send block p-r, receive and add block p-r-1; then block p+1 is complete here
//   spread:  round r in [0, N-1): send block p+1-r, receive block p-r
Schedule RingAllreduce(int position, int size);

// Recursive doubling of one block, for small operands. With R the largest power of two up to N: members from R on give
// their operand to p - R; log2 R rounds in which p and p xor 2^k exchange what they have and add; members from R on get
// the result. Up to ceil(log2 N) + 1 rounds, each with the whole operand. Both ends of an exchange add in one order, so
// all members have the same bits.
Schedule DoublingAllreduce(int position, int size);

// Ring allgather; block m is the contribution of member m, of any size. A round for the own copy, then N-1 rounds: in
// round r send block p-r to the right, receive block p-r-1 from the left. Every member receives all blocks but its own
// once.
Schedule RingAllgather(int position, int size);

// Binomial tree of one block. ceil(log2 N) rounds; with v = (p - root) mod N, in round k members with v < 2^k send to
// v + 2^k. The root sends the block up to ceil(log2 N) times, every other member receives it once.
Schedule TreeBroadcast(int position, int size, int root);

// Dissemination barrier. ceil(log2 N) rounds; in round k a token to p + 2^k and one from p - 2^k. After round k a
// member has heard, directly or not, of the 2^(k+1) - 1 members before it.
Schedule DisseminationBarrier(int position, int size);

}  // namespace farandole

#endif  // FARANDOLE_WORKER_SCHEDULE_H_
