#ifndef FARANDOLE_WORKER_SCHEDULE_SCHEDULE_H_
#define FARANDOLE_WORKER_SCHEDULE_SCHEDULE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace farandole::worker::schedule {

// What one member does in a collective, as arithmetic: no pointer, no clock, no I/O. Members are positions 0 to
// size - 1. The operand is cut into numbered blocks, the same on all members; LaneLayout says where they lie.
//
// Rules that every schedule keeps, and that the checker holds against all sizes from 1 to 33:
//   - all members have the same number of rounds; a send in a round meets a receive of the same blocks in the same
//     round of the peer, and the other way round;
//   - at most one send and one receive per peer and round; at most one receive of a round reduces, or several of them
//     do in order, all of one block;
//   - in a round no block is both sent and replaced, so its transfers may run at once, in any order. What is received
//     to be reduced is reduced when all transfers of the round are done: a block may be sent and reduced in one round.
// It follows that no schedule can deadlock: who has finished round r has posted all that others need to finish it. That
// holds for one lane. Several lanes at a time share channels, in which a frame that comes too early stands before all
// that follow; so they overlap only where that cannot end in a circle:
//   - one peer to receive from (ring, tree): what it sends first is what is waited for first;
//   - in each round the same with all peers at once (direct, alltoall): if all lanes of a member waited for frames that
//     stand behind a lane it has not begun, each of those senders would have finished another one of these lanes
//     before, hence have got the frame that the member lacks of that lane, posted earlier: an endless descent.
struct Step {
  enum class Kind : uint8_t {
    kSend,           // block to peer
    kSendInput,      // block of the own contribution, from where that lies, to peer
    kReceive,        // block from peer, replaces what is there
    kReceiveReduce,  // block from peer, combined with what is there; the operand of the lower position comes first
    // block from peer; all that a round receives so and what is there are combined at once, in order of position, with
    // the factors of the reduction: each has to be an untouched operand
    kReceiveOrdered,
    kCopy,  // own contribution into its block of the output; no peer
  };
  Kind kind;
  int peer;
  int block;
  // Of consecutive blocks, from `block` on, that travel together.
  int blocks = 1;
};

// The block of a message without data, whose arrival is what counts. Blocks of zero bytes, in contrast, are not sent.
inline constexpr int kToken = -1;

using Round = std::vector<Step>;

struct Schedule {
  std::string name;
  std::vector<Round> rounds;
  // Lanes that may be under way at a time, if there are more: one where they could end in a circle; few where a round
  // has messages for everybody, of which more at a time only push one another out of the caches.
  int lanes_max = 64;
};

// All positions that any schedule of this size makes `position` talk to, but for those that need a mesh: those at a
// distance of a power of two, in either direction. Sorted; symmetric.
std::vector<int> PeersOf(int position, int size);
// Everybody else.
std::vector<int> MeshPeersOf(int position, int size);

// How a collective is carried out, where there is a choice. The first two need a mesh; when they reduce, all operands
// of an element are combined at once: floats have the bits of a reduction in order of position, 16-bit ones are rounded
// once.
enum class Algorithm : uint8_t { kExchange, kDirect, kDoubling, kHalving, kRing };

inline bool NeedsMesh(Algorithm a) { return a == Algorithm::kExchange || a == Algorithm::kDirect; }

// The largest power of two up to `size`: blocks of HalvingAllreduce.
int PowerOfTwoUpTo(int size);

// One block; each sends its whole operand to all others and combines all. One round; for the smallest operands and few
// members.
Schedule ExchangeAllreduce(int position, int size);

// Over `size` blocks, two rounds: block q to member q, which combines what all have sent it; then every member sends
// its block to all. The bytes of the ring in two rounds, each with a message to and from everybody.
Schedule DirectAllreduce(int position, int size);

// Recursive halving and doubling over R = PowerOfTwoUpTo(size) blocks. Members from R on give their operand to p - R
// and get the result in the end; between, with distance R/2, R/4, ... 1: p and p xor distance each send the half of
// what they still reduce that the other keeps; then the same way back with what is complete. 2 log2 R rounds with
// 2(R-1)/R of the operand, and two more if size is no power of two.
Schedule HalvingAllreduce(int position, int size);

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

// The first half of the ring allreduce, turned so that block p ends complete on member p: round r in [0, N-1): send
// block p-r-1 to the right, receive and reduce block p-r-2 from the left.
Schedule RingReducescatter(int position, int size);
// The first round of the direct allreduce; block m may have any size.
Schedule DirectReducescatter(int position, int size);

// Ring allgather; block m is the contribution of member m, of any size. A round for the own copy, then N-1 rounds: in
// round r send block p-r to the right, receive block p-r-1 from the left. Every member receives all blocks but its own
// once.
Schedule RingAllgather(int position, int size);

// The same in one round: the own block to everybody, everybody's from them.
Schedule DirectAllgather(int position, int size);

// Alltoall; block s * size + d is what s sends to d. One round with all, in order of distance, so that not all send to
// the same one first.
Schedule DirectAlltoall(int position, int size);

// One round of an alltoall where there is no mesh: relayed_alltoall.h has the steps and bytes. Of LaneLayout::Pairs
// between two: what goes to `to` is what the first sends to the second, what comes from `from` the other way round.
Schedule RelayRound(int to, int from);

// Binomial tree of one block. ceil(log2 N) rounds; with v = (p - root) mod N, in round k members with v < 2^k send to
// v + 2^k. The root sends the block up to ceil(log2 N) times, every other member receives it once.
Schedule TreeBroadcast(int position, int size, int root);

// Dissemination barrier. ceil(log2 N) rounds; in round k a token to p + 2^k and one from p - 2^k. After round k a
// member has heard, directly or not, of the 2^(k+1) - 1 members before it.
Schedule DisseminationBarrier(int position, int size);

}  // namespace farandole::worker::schedule

#endif  // FARANDOLE_WORKER_SCHEDULE_SCHEDULE_H_
