#include "worker/schedule.h"

#include <algorithm>
#include <utility>

namespace farandole {
namespace {

using Kind = Step::Kind;

int Modulo(int value, int size) { return (value % size + size) % size; }

}  // namespace

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

Schedule DoublingAllreduce(int position, int size) {
  Schedule schedule{"doubling allreduce", {}};
  int power = 1;
  while (2 * power <= size) power *= 2;
  const int extra = size - power;
  if (extra > 0) {
    schedule.rounds.emplace_back();
    if (position >= power) schedule.rounds.back() = {{Kind::kSend, position - power, 0}};
    if (position < extra) schedule.rounds.back() = {{Kind::kReceiveReduce, position + power, 0}};
  }
  for (int distance = 1; distance < power; distance *= 2) {
    schedule.rounds.emplace_back();
    if (position >= power) continue;
    const int partner = position ^ distance;
    schedule.rounds.back() = {{Kind::kSend, partner, 0}, {Kind::kReceiveReduce, partner, 0}};
  }
  if (extra > 0) {
    schedule.rounds.emplace_back();
    if (position < extra) schedule.rounds.back() = {{Kind::kSend, position + power, 0}};
    if (position >= power) schedule.rounds.back() = {{Kind::kReceive, position - power, 0}};
  }
  return schedule;
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

}  // namespace farandole
