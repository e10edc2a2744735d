#include "worker/schedule/schedule.h"

#include <algorithm>
#include <utility>

namespace farandole::worker::schedule {
namespace {

using Kind = Step::Kind;

constexpr int kMeshLanes = 2;

int Modulo(int value, int size) { return (value % size + size) % size; }

// Block q to q, and the own block, a part of everybody's operand, from all.
Round ScatterRound(int position, int size) {
  Round round;
  for (int peer : MeshPeersOf(position, size)) {
    round.push_back({Kind::kSend, peer, peer});
    round.push_back({Kind::kReceiveOrdered, peer, position});
  }
  return round;
}

// A round in which those beyond the power of two give to their partners, or get from them.
Round FoldRound(int position, int size, int blocks, bool back) {
  const int power = PowerOfTwoUpTo(size), extra = size - power;
  if (position >= power) return {{back ? Kind::kReceive : Kind::kSend, position - power, 0, blocks}};
  if (position < extra) return {{back ? Kind::kSend : Kind::kReceiveReduce, position + power, 0, blocks}};
  return {};
}

}  // namespace

int PowerOfTwoUpTo(int size) {
  int power = 1;
  while (2 * power <= size) power *= 2;
  return power;
}

std::vector<int> MeshPeersOf(int position, int size) {
  std::vector<int> peers;
  for (int peer = 0; peer < size; ++peer) {
    if (peer != position) peers.push_back(peer);
  }
  return peers;
}

std::vector<int> PeersOf(int position, int size) {
  std::vector<int> peers;
  for (int distance = 1; distance < size; distance *= 2) {
    peers.push_back(Modulo(position + distance, size));
    peers.push_back(Modulo(position - distance, size));
  }
  std::sort(peers.begin(), peers.end());
  peers.erase(std::unique(peers.begin(), peers.end()), peers.end());
  return peers;
}

Schedule RingAllreduce(int position, int size) {
  Schedule schedule{"ring allreduce", {}};
  const int right = Modulo(position + 1, size);
  const int left = Modulo(position - 1, size);
  for (int r = 0; r < size - 1; ++r) {
    schedule.rounds.push_back({{Kind::kSend, right, Modulo(position - r, size)},
                               {Kind::kReceiveReduce, left, Modulo(position - r - 1, size)}});
  }
  for (int r = 0; r < size - 1; ++r) {
    schedule.rounds.push_back(
        {{Kind::kSend, right, Modulo(position + 1 - r, size)}, {Kind::kReceive, left, Modulo(position - r, size)}});
  }
  return schedule;
}

Schedule ExchangeAllreduce(int position, int size) {
  Schedule schedule{"exchange allreduce", {{}}};
  for (int peer : MeshPeersOf(position, size)) {
    schedule.rounds[0].push_back({Kind::kSend, peer, 0});
    schedule.rounds[0].push_back({Kind::kReceiveOrdered, peer, 0});
  }
  return schedule;
}

Schedule DirectAllreduce(int position, int size) {
  Schedule schedule{"direct allreduce", {ScatterRound(position, size), {}}, kMeshLanes};
  for (int peer : MeshPeersOf(position, size)) {
    schedule.rounds[1].push_back({Kind::kSend, peer, position});
    schedule.rounds[1].push_back({Kind::kReceive, peer, peer});
  }
  return schedule;
}

Schedule DoublingAllreduce(int position, int size) {
  Schedule schedule{"doubling allreduce", {}, 1};
  const int power = PowerOfTwoUpTo(size);
  if (power < size) schedule.rounds.push_back(FoldRound(position, size, 1, false));
  for (int distance = 1; distance < power; distance *= 2) {
    schedule.rounds.emplace_back();
    if (position >= power) continue;
    const int partner = position ^ distance;
    schedule.rounds.back() = {{Kind::kSend, partner, 0}, {Kind::kReceiveReduce, partner, 0}};
  }
  if (power < size) schedule.rounds.push_back(FoldRound(position, size, 1, true));
  return schedule;
}

Schedule HalvingAllreduce(int position, int size) {
  Schedule schedule{"halving allreduce", {}, 1};
  const int power = PowerOfTwoUpTo(size);
  if (power < size) schedule.rounds.push_back(FoldRound(position, size, power, false));
  // Before distance d members that agree in all bits from 2d on hold one range of 2d blocks.
  for (int distance = power / 2; distance > 0; distance /= 2) {
    schedule.rounds.emplace_back();
    if (position >= power) continue;
    const int partner = position ^ distance;
    schedule.rounds.back() = {{Kind::kSend, partner, partner / distance * distance, distance},
                              {Kind::kReceiveReduce, partner, position / distance * distance, distance}};
  }
  for (int distance = 1; distance < power; distance *= 2) {
    schedule.rounds.emplace_back();
    if (position >= power) continue;
    const int partner = position ^ distance;
    schedule.rounds.back() = {{Kind::kSend, partner, position / distance * distance, distance},
                              {Kind::kReceive, partner, partner / distance * distance, distance}};
  }
  if (power < size) schedule.rounds.push_back(FoldRound(position, size, power, true));
  return schedule;
}

Schedule RingReducescatter(int position, int size) {
  Schedule schedule{"ring reducescatter", {}};
  const int right = Modulo(position + 1, size);
  const int left = Modulo(position - 1, size);
  for (int r = 0; r < size - 1; ++r) {
    schedule.rounds.push_back({{Kind::kSend, right, Modulo(position - r - 1, size)},
                               {Kind::kReceiveReduce, left, Modulo(position - r - 2, size)}});
  }
  return schedule;
}

Schedule DirectReducescatter(int position, int size) {
  return {"direct reducescatter", {ScatterRound(position, size)}, kMeshLanes};
}

Schedule RingAllgather(int position, int size) {
  Schedule schedule{"ring allgather", {{{Kind::kCopy, position, position}}}};
  const int right = Modulo(position + 1, size);
  const int left = Modulo(position - 1, size);
  for (int r = 0; r < size - 1; ++r) {
    schedule.rounds.push_back(
        {{Kind::kSend, right, Modulo(position - r, size)}, {Kind::kReceive, left, Modulo(position - r - 1, size)}});
  }
  return schedule;
}

Schedule DirectAllgather(int position, int size) {
  Schedule schedule{"direct allgather", {{{Kind::kCopy, position, position}}}, kMeshLanes};
  for (int peer : MeshPeersOf(position, size)) {
    schedule.rounds[0].push_back({Kind::kSendInput, peer, position});
    schedule.rounds[0].push_back({Kind::kReceive, peer, peer});
  }
  return schedule;
}

Schedule DirectAlltoall(int position, int size) {
  Schedule schedule{"direct alltoall", {{{Kind::kCopy, position, position * size + position}}}, kMeshLanes};
  for (int distance = 1; distance < size; ++distance) {
    const int to = Modulo(position + distance, size), from = Modulo(position - distance, size);
    schedule.rounds[0].push_back({Kind::kSendInput, to, position * size + to});
    schedule.rounds[0].push_back({Kind::kReceive, from, from * size + position});
  }
  return schedule;
}

Schedule RelayRound(int to, int from) {
  return {"relayed alltoall", {{{Kind::kSendInput, to, 0 * 2 + 1}, {Kind::kReceive, from, 1 * 2 + 0}}}};
}

Schedule TreeBroadcast(int position, int size, int root) {
  Schedule schedule{"tree broadcast", {}};
  const int v = Modulo(position - root, size);
  for (int distance = 1; distance < size; distance *= 2) {
    Round round;
    if (v < distance && v + distance < size) {
      round.push_back({Kind::kSend, Modulo(position + distance, size), 0});
    } else if (v >= distance && v < 2 * distance) {
      round.push_back({Kind::kReceive, Modulo(position - distance, size), 0});
    }
    schedule.rounds.push_back(std::move(round));
  }
  return schedule;
}

Schedule DisseminationBarrier(int position, int size) {
  Schedule schedule{"dissemination barrier", {}};
  for (int distance = 1; distance < size; distance *= 2) {
    schedule.rounds.push_back({{Kind::kSend, Modulo(position + distance, size), kToken},
                               {Kind::kReceive, Modulo(position - distance, size), kToken}});
  }
  return schedule;
}

}  // namespace farandole::worker::schedule
