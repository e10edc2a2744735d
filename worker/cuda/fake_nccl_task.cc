#include "worker/cuda/fake_nccl_task.h"

#include <cstdint>
#include <cstring>
#include <utility>

namespace farandole::worker::cuda {

// Goes before the bytes, so that ranks that do not agree are told so; NCCL's would hang or take what is not theirs.
struct FakeNcclTask::Header {
  // Of rank 0's answer, instead of a kind.
  static constexpr int kResult = 100;
  static constexpr int kDisagree = 101;
  static constexpr int kDeath = 102;

  int kind;
  ncclDataType_t type;
  ncclRedOp_t op;
  int root;
  uint64_t count;
  uint64_t scaled;
  FakeNcclScalar factor;

  bool Agrees(const Header& other) const {
    return kind == other.kind && type == other.type && op == other.op && root == other.root && count == other.count &&
           scaled == other.scaled;
  }

  std::string Text() const {
    static constexpr const char* kKinds[] = {"an allreduce", "a reduce-scatter", "an allgather", "a broadcast",
                                             "a send or receive"};
    const std::string name = kind >= 0 && kind <= kPairs ? kKinds[kind] : "an answer";
    return name + " of " + std::to_string(count) + " elements of type " + std::to_string(type) + ", operation " +
           std::to_string(op) + ", root " + std::to_string(root);
  }
};

FakeNcclTask::Header FakeNcclTask::MyHeader() const { return {kind, type, op, root, count, scaled, factor}; }

size_t FakeNcclTask::BytesIn(const Place& place) const {
  const size_t all = kind == kReduceScatter ? static_cast<size_t>(place.ranks) : 1;
  return all * count * FakeNcclBytesOf(type);
}

size_t FakeNcclTask::BytesOut(const Place& place) const {
  const size_t all = kind == kAllGather ? static_cast<size_t>(place.ranks) : 1;
  return all * count * FakeNcclBytesOf(type);
}

bool FakeNcclTask::Run(const Place& place) const {
  if (kind == kPairs) return RunPairs(place);
  return place.rank == 0 ? RunAsHost(place) : RunAsGuest(place);
}

bool FakeNcclTask::Exchange(const Place& place, Pieces pieces, bool gathers) const {
  const auto on_death = [&](int peer) {
    if (!place.tells_death) return;
    place.fail(ncclRemoteError, "rank " + std::to_string(peer) + " is gone");
    Header death = {};
    death.kind = Header::kDeath;
    death.root = peer;
    // Only then does no rank expect anything else from here.
    if (gathers) place.links->Tell(&death, sizeof(death));
  };
  switch (place.links->Exchange(std::move(pieces), *place.interrupt, place.deadline, on_death)) {
    case FakeNcclLinks::kDone:
      return true;
    case FakeNcclLinks::kLate:
      place.fail(ncclSystemError, "rank " + std::to_string(place.rank) + " waited too long: " + MyHeader().Text());
      return false;
    default:
      return false;
  }
}

bool FakeNcclTask::RunPairs(const Place& place) const {
  std::vector<Header> headers(pairs.size());
  std::vector<Header> theirs(pairs.size());
  std::vector<const Pair*> to_self;
  std::vector<const Pair*> from_self;
  Pieces pieces;
  for (size_t i = 0; i < pairs.size(); ++i) {
    const Pair& pair = pairs[i];
    if (pair.peer == place.rank) {
      (pair.send ? to_self : from_self).push_back(&pair);
      continue;
    }
    headers[i] = {kPairs, pair.type, ncclSum, 0, pair.count, 0, {}};
    const auto agrees = [&, i] {
      if (theirs[i].Agrees(headers[i])) return true;
      place.fail(ncclInternalError, "rank " + std::to_string(pairs[i].peer) + " sends in " + theirs[i].Text() +
                                        ", rank " + std::to_string(place.rank) + " expects " + headers[i].Text());
      return false;
    };
    Header* const header = pair.send ? &headers[i] : &theirs[i];
    pieces.push_back({pair.peer, pair.send, reinterpret_cast<char*>(header), sizeof(Header),
                      pair.send ? std::function<bool()>() : agrees});
    pieces.push_back({pair.peer, pair.send, pair.data, pair.count * FakeNcclBytesOf(pair.type), {}});
  }
  for (size_t i = 0; i < to_self.size(); ++i) {
    memmove(from_self[i]->data, to_self[i]->data, to_self[i]->count * FakeNcclBytesOf(to_self[i]->type));
  }
  return Exchange(place, std::move(pieces), false);
}

bool FakeNcclTask::RunAsGuest(const Place& place) const {
  Header mine = MyHeader();
  Header answer = {};
  const auto accept = [&] {
    if (answer.kind == Header::kResult) return true;
    if (answer.kind == Header::kDeath) {
      place.fail(ncclRemoteError, "rank " + std::to_string(answer.root) + " is gone");
    } else {
      place.fail(ncclInternalError, "the ranks do not agree: this one does " + mine.Text());
    }
    return false;
  };
  Pieces pieces = {{0, true, reinterpret_cast<char*>(&mine), sizeof(mine), {}}};
  if (Sends(place.rank)) pieces.push_back({0, true, in, BytesIn(place), {}});
  pieces.push_back({0, false, reinterpret_cast<char*>(&answer), sizeof(answer), accept});
  pieces.push_back({0, false, out, BytesOut(place), {}});
  return Exchange(place, std::move(pieces), false);
}

bool FakeNcclTask::RunAsHost(const Place& place) const {
  const size_t ranks = static_cast<size_t>(place.ranks);
  std::vector<Header> headers(ranks, MyHeader());
  std::vector<std::vector<char>> bodies(ranks);
  std::vector<const char*> from(ranks, in);
  Pieces gather;
  for (int rank = 1; rank < place.ranks; ++rank) {
    Header* const header = &headers[static_cast<size_t>(rank)];
    const auto agrees = [&, header, rank] {
      if (header->Agrees(headers[0])) return true;
      const Header disagree = {Header::kDisagree, type, op, root, count, 0, {}};
      place.links->Tell(&disagree, sizeof(disagree));
      place.fail(ncclInternalError, "the ranks do not agree: rank " + std::to_string(rank) + " does " + header->Text() +
                                        ", rank 0 " + headers[0].Text());
      return false;
    };
    gather.push_back({rank, false, reinterpret_cast<char*>(header), sizeof(Header), agrees});
    if (!Sends(rank)) continue;
    std::vector<char>& body = bodies[static_cast<size_t>(rank)];
    body.resize(BytesIn(place));
    from[static_cast<size_t>(rank)] = body.data();
    gather.push_back({rank, false, body.data(), body.size(), {}});
  }
  if (!Exchange(place, std::move(gather), true)) return false;

  std::vector<char> result = Compute(from, headers);
  const size_t bytes = BytesOut(place);
  const size_t stride = kind == kReduceScatter ? bytes : 0;
  Header answer = headers[0];
  answer.kind = Header::kResult;
  Pieces hand_out;
  for (int rank = 1; rank < place.ranks; ++rank) {
    hand_out.push_back({rank, true, reinterpret_cast<char*>(&answer), sizeof(answer), {}});
    hand_out.push_back({rank, true, result.data() + static_cast<size_t>(rank) * stride, bytes, {}});
  }
  if (bytes > 0) memcpy(out, result.data(), bytes);
  return Exchange(place, std::move(hand_out), false);
}

std::vector<char> FakeNcclTask::Compute(const std::vector<const char*>& from,
                                        const std::vector<Header>& headers) const {
  const size_t ranks = from.size();
  const size_t bytes = count * FakeNcclBytesOf(type);
  std::vector<char> result;
  if (kind == kBroadcast) {
    const char* const begin = from[static_cast<size_t>(root)];
    result.assign(begin, begin + bytes);
  } else if (kind == kAllGather) {
    for (const char* const begin : from) result.insert(result.end(), begin, begin + bytes);
  } else {
    FakeNcclReduction reduction = {type, op, {}};
    for (size_t rank = 0; scaled && rank < ranks; ++rank) reduction.factors.push_back(headers[rank].factor);
    const size_t all = kind == kReduceScatter ? ranks : 1;
    result.resize(all * bytes);
    FakeNcclReduce(reduction, from, result.data(), all * count);
  }
  return result;
}

}  // namespace farandole::worker::cuda
