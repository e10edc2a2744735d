#include "worker/shm/shared_memory.h"

#include <atomic>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/shm/peer_memory.h"
#include "worker/shm/shm_communicator.h"

namespace farandole::worker::shm {
namespace {

constexpr DataType kFloat = DataType::kFloat32;

GenerationId Generation(uint64_t number) {
  GenerationId generation;
  generation.number = number;
  return generation;
}

TEST(SharedMemoryTest, PeersSeeItsBytes) {
  collective::LocalBootstrap bootstrap;
  SharedMemory memory;
  const auto first = memory.Allocate(&bootstrap, Generation(1), Rank(3), 100);
  const auto second = memory.Allocate(&bootstrap, Generation(1), Rank(3), 3 << 20);
  ASSERT_TRUE(first.ok() && second.ok());
  std::memcpy(*second + (3 << 20) - 5, "hello", 5);
  const collective::Piece piece{*second + 64, *second + 64, 10};
  const auto layout = memory.Find(Generation(1), kFloat, {&piece, 1});
  ASSERT_TRUE(layout.has_value());
  EXPECT_EQ(layout->region, *second);
  PeerMemory peer(&bootstrap);
  const auto seen = peer.At(Rank(3), layout->number, layout->bytes);
  ASSERT_TRUE(seen.ok()) << seen.status();
  EXPECT_NE(*seen, *second);
  EXPECT_EQ(std::memcmp(*seen + (3 << 20) - 5, "hello", 5), 0);
  EXPECT_EQ(*peer.At(Rank(3), layout->number, layout->bytes), *seen) << "mapped once";
}

TEST(SharedMemoryTest, WhatIsFreedIsUsedAgain) {
  collective::LocalBootstrap bootstrap;
  SharedMemory memory;
  char* const first = *memory.Allocate(&bootstrap, Generation(1), Rank(0), 100);
  char* const second = *memory.Allocate(&bootstrap, Generation(1), Rank(0), 100);
  EXPECT_NE(first, second);
  EXPECT_TRUE(memory.Free(first));
  EXPECT_FALSE(memory.Free(first));
  EXPECT_FALSE(memory.Free(second + 1));
  EXPECT_NE(*memory.Allocate(&bootstrap, Generation(1), Rank(0), 5 << 20), first) << "too small";
  EXPECT_EQ(*memory.Allocate(&bootstrap, Generation(1), Rank(0), 200), first);
}

TEST(SharedMemoryTest, RefusalsTellWhy) {
  class Refusing : public collective::LocalBootstrap {
    absl::StatusOr<UniqueFd> Segment(const std::string&, uint64_t) override {
      return absl::ResourceExhaustedError("the host has no more");
    }
  } refusing;
  SharedMemory memory;
  EXPECT_EQ(memory.Allocate(&refusing, Generation(1), Rank(0), 100).status().message(), "the host has no more");
  for (int64_t bytes : {int64_t{0}, int64_t{-1}, INT64_MAX}) {
    EXPECT_TRUE(absl::IsInvalidArgument(memory.Allocate(&refusing, Generation(1), Rank(0), bytes).status()));
  }
}

TEST(SharedMemoryTest, FindsOnlyWhatLiesInOneRegionOfThisGeneration) {
  collective::LocalBootstrap bootstrap;
  SharedMemory memory;
  char* const a = *memory.Allocate(&bootstrap, Generation(1), Rank(0), 2 << 20);
  char* const b = *memory.Allocate(&bootstrap, Generation(1), Rank(0), 2 << 20);
  float outside[4];
  const auto find = [&](std::vector<collective::Piece> pieces, uint64_t generation = 1) {
    return memory.Find(Generation(generation), kFloat, pieces);
  };
  const auto whole = find({{a, a, 1 << 19}});
  ASSERT_TRUE(whole.has_value());
  EXPECT_FALSE(find({{a, a, 1 << 19}}, 2).has_value());
  EXPECT_FALSE(find({{a + 4, a + 4, 1 << 19}}).has_value()) << "one element outside";
  EXPECT_FALSE(find({{a, a + 64, 4}}).has_value()) << "not in place";
  EXPECT_FALSE(find({{a, a, 4}, {b, b, 4}}).has_value());
  EXPECT_FALSE(find({{a, a, 4}, {outside, outside, 4}}).has_value());
  EXPECT_FALSE(find({{a, a, 4}, {nullptr, nullptr, 4}}).has_value());
  EXPECT_TRUE(find({{a, a, 4}, {nullptr, nullptr, 0}}).has_value());
  EXPECT_NE(find({{a, a, 4}, {a + 64, a + 64, 4}})->hash, find({{a + 64, a + 64, 4}, {a, a, 4}})->hash);
  EXPECT_EQ(find({{a, a, 4}})->hash, find({{b, b, 4}})->hash) << "the same places of equal regions";
}

// Counts segments for buffers.
class CountingBootstrap : public collective::LocalBootstrap {
 public:
  absl::StatusOr<UniqueFd> Segment(const std::string& key, uint64_t bytes) override {
    if (key.find("/buffer/") != std::string::npos) ++buffers;
    return collective::LocalBootstrap::Segment(key, bytes);
  }
  std::atomic<int> buffers{0};
};

// Runs `body` as each of `ranks` ranks, threads with a memory and a communicator each.
using Body = std::function<void(ShmCommunicator& communicator, SharedMemory& memory, collective::Bootstrap* bootstrap)>;
// Returns how often memory to copy to was wanted.
int RunRanks(int ranks, const Body& body) {
  CountingBootstrap bootstrap;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      SharedMemory memory;
      ShmOptions options;
      options.buffer_bytes = 64 << 10;
      options.chunk_bytes = 8 << 10;
      options.packed_bytes_max = 32 << 10;
      options.memory = &memory;
      auto communicator = ShmCommunicator::Create(collective::TestGroup(ranks, rank), &bootstrap, options);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      body(**communicator, memory, &bootstrap);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return bootstrap.buffers;
}

struct Tensors {
  std::vector<std::vector<char>> plain;
  std::vector<collective::Piece> pieces;
};

// Some tensors of float32, which lie in `region` or, if it is null, in memory of their own.
Tensors MakeTensors(char* region, const std::vector<int64_t>& counts, int rank, int round) {
  Tensors tensors;
  tensors.plain.resize(counts.size());
  for (size_t i = 0; i < counts.size(); ++i) {
    char* data = region;
    if (region == nullptr) {
      tensors.plain[i].resize(counts[i] * 4);
      data = tensors.plain[i].data();
    } else {
      region += (counts[i] * 4 + 63) / 64 * 64;
    }
    collective::FillOperand(kFloat, data, counts[i], rank, round + static_cast<int>(i));
    tensors.pieces.push_back({data, data, counts[i]});
  }
  return tensors;
}

void CheckTensors(const Tensors& tensors, int ranks, int round) {
  for (size_t i = 0; i < tensors.pieces.size(); ++i) {
    const collective::Piece& piece = tensors.pieces[i];
    ASSERT_EQ(collective::WrongCell(kFloat, static_cast<const char*>(piece.output), piece.count, ranks,
                                    round + static_cast<int>(i)),
              -1)
        << "tensor " << i << " round " << round;
  }
}

const std::vector<std::vector<int64_t>> kCounts = {
    {1, 2, 3}, {1, 200, 0, 77}, {5000, 1, 3000, 17}, {40000, 33}, {20000}, {15}, {300}};

TEST(ReductionInSharedMemory, OfManyTensorsAtOnce) {
  for (int ranks : {2, 3, 5}) {
    const int buffers =
        RunRanks(ranks, [ranks](ShmCommunicator& communicator, SharedMemory& memory, collective::Bootstrap* bootstrap) {
          const int rank = communicator.position();
          char* const region = *memory.Allocate(bootstrap, Generation(1), Rank(rank), 1 << 20);
          int round = 0;
          for (const auto& counts : kCounts) {
            const Tensors tensors = MakeTensors(region, counts, rank, ++round);
            const uint64_t anchor = round;
            const absl::Status s = communicator.AllreducePieces({1, anchor, 0}, kFloat, tensors.pieces);
            ASSERT_TRUE(s.ok()) << s;
            CheckTensors(tensors, ranks, round);
          }
        });
    EXPECT_EQ(buffers, 0) << "nothing was copied";
  }
}

// All mixtures of three ranks whose tensors lie in shared memory, at another place of it, or elsewhere.
TEST(ReductionInSharedMemory, RanksWhoseTensorsLieElsewhereMakeTheOthersCopy) {
  constexpr int kRanks = 3;
  RunRanks(kRanks, [](ShmCommunicator& communicator, SharedMemory& memory, collective::Bootstrap* bootstrap) {
    const int rank = communicator.position();
    char* const region = *memory.Allocate(bootstrap, Generation(1), Rank(rank), 1 << 20);
    int round = 0;
    for (int mixture = 0; mixture < 27; ++mixture) {
      const int kind = mixture / (rank == 0 ? 1 : rank == 1 ? 3 : 9) % 3;
      for (const auto& counts : kCounts) {
        ++round;
        char* const place = kind == 0 ? region : kind == 1 ? region + 4096 : nullptr;
        const Tensors tensors = MakeTensors(place, counts, rank, round);
        const uint64_t anchor = round;
        const absl::Status s = communicator.AllreducePieces({1, anchor, 0}, kFloat, tensors.pieces);
        ASSERT_TRUE(s.ok()) << s;
        CheckTensors(tensors, kRanks, round);
      }
    }
  });
}

TEST(ReductionInSharedMemory, ManyLargeTensorsElsewhereGoThroughChunks) {
  const int buffers = RunRanks(2, [](ShmCommunicator& communicator, SharedMemory&, collective::Bootstrap*) {
    const Tensors tensors = MakeTensors(nullptr, {3000, 0, 9000, 1, 777}, communicator.position(), 1);
    const absl::Status s = communicator.AllreducePieces({1, 1, 0}, kFloat, tensors.pieces);
    ASSERT_TRUE(s.ok()) << s;
    CheckTensors(tensors, 2, 1);
  });
  EXPECT_EQ(buffers, 0) << "they were packed whole";
}

TEST(ReductionInSharedMemory, WhoAddsZerosHasNoTensors) {
  RunRanks(2, [](ShmCommunicator& communicator, SharedMemory& memory, collective::Bootstrap* bootstrap) {
    const int rank = communicator.position();
    char* const region = *memory.Allocate(bootstrap, Generation(1), Rank(rank), 1 << 20);
    for (uint64_t round = 1; round <= kCounts.size(); ++round) {
      const auto& counts = kCounts[round - 1];
      Tensors tensors = MakeTensors(region, counts, 0, static_cast<int>(round));
      const Tensors expected = MakeTensors(nullptr, counts, 0, static_cast<int>(round));
      if (rank == 1) {
        for (collective::Piece& piece : tensors.pieces) piece = {nullptr, nullptr, piece.count};
      }
      ASSERT_TRUE(communicator.AllreducePieces({1, round, 0}, kFloat, tensors.pieces).ok());
      for (size_t i = 0; rank == 0 && i < counts.size(); ++i) {
        if (counts[i] == 0) continue;
        EXPECT_EQ(std::memcmp(tensors.pieces[i].output, expected.pieces[i].output, counts[i] * 4), 0);
      }
    }
  });
}

}  // namespace
}  // namespace farandole::worker::shm
