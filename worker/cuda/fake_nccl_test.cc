#include "worker/cuda/fake_nccl.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "worker/cuda/fake_ranks_testing.h"
#include "worker/cuda/nccl_abi.h"

namespace farandole::worker::cuda {
namespace {

// Each cell of each rank differs.
int32_t Cell(int rank, size_t i) { return 1000 * (rank + 1) + static_cast<int32_t>(i); }

std::vector<int32_t> Cells(int rank, size_t count) {
  std::vector<int32_t> cells;
  for (size_t i = 0; i < count; ++i) cells.push_back(Cell(rank, i));
  return cells;
}

// Collectives of so many ranks, as threads. Their results follow from Cell().
class FakeNcclTest : public testing::TestWithParam<int> {
 protected:
  // More than a socket holds, and no multiple of anything.
  static constexpr size_t kCount = 100'003;

  void Run(const std::function<void(FakeRank&)>& body) { RunRanks(fakes_, GetParam(), body); }

  Fakes fakes_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Ranks, FakeNcclTest, testing::Values(1, 2, 3, 4));

TEST_P(FakeNcclTest, AllReduce) {
  Run([](FakeRank& rank) {
    const auto* in = rank.Put(Cells(rank.rank(), kCount));
    auto* out = rank.New<int32_t>(kCount);
    rank.Check(rank.nccl().ncclAllReduce(in, out, kCount, ncclInt32, ncclSum, rank.comm(), rank.stream()));
    const std::vector<int32_t> sums = rank.Get(out, kCount);
    const int n = rank.ranks();
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(sums[i], 500 * n * (n + 1) + n * static_cast<int>(i));
    EXPECT_EQ(rank.Get(in, kCount), Cells(rank.rank(), kCount));
  });
}

TEST_P(FakeNcclTest, AllReduceInPlace) {
  Run([](FakeRank& rank) {
    auto* both = rank.Put(Cells(rank.rank(), kCount));
    rank.Check(rank.nccl().ncclAllReduce(both, both, kCount, ncclInt32, ncclMax, rank.comm(), rank.stream()));
    EXPECT_EQ(rank.Get(both, kCount), Cells(rank.ranks() - 1, kCount));
  });
}

TEST_P(FakeNcclTest, ReduceScatter) {
  Run([](FakeRank& rank) {
    const size_t n = static_cast<size_t>(rank.ranks());
    const size_t shift = static_cast<size_t>(rank.rank()) * kCount;
    const auto* in = rank.Put(Cells(rank.rank(), n * kCount));
    auto* out = rank.New<int32_t>(kCount);
    rank.Check(rank.nccl().ncclReduceScatter(in, out, kCount, ncclInt32, ncclMin, rank.comm(), rank.stream()));
    const std::vector<int32_t> least = rank.Get(out, kCount);
    for (size_t i = 0; i < kCount; ++i) ASSERT_EQ(least[i], Cell(0, shift + i));
  });
}

TEST_P(FakeNcclTest, AllGatherInPlace) {
  Run([](FakeRank& rank) {
    const size_t n = static_cast<size_t>(rank.ranks());
    std::vector<int32_t> cells(n * kCount);
    for (size_t i = 0; i < kCount; ++i) cells[static_cast<size_t>(rank.rank()) * kCount + i] = Cell(rank.rank(), i);
    auto* out = rank.Put(cells);
    const auto* in = out + static_cast<size_t>(rank.rank()) * kCount;
    rank.Check(rank.nccl().ncclAllGather(in, out, kCount, ncclInt32, rank.comm(), rank.stream()));
    const std::vector<int32_t> all = rank.Get(out, n * kCount);
    for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], Cell(static_cast<int>(i / kCount), i % kCount));
  });
}

// Only the root's input is looked at.
TEST_P(FakeNcclTest, Broadcast) {
  Run([](FakeRank& rank) {
    for (int root = 0; root < rank.ranks(); ++root) {
      const auto* in = rank.rank() == root ? rank.Put(Cells(root, kCount)) : nullptr;
      auto* out = rank.New<int32_t>(kCount);
      rank.Check(rank.nccl().ncclBroadcast(in, out, kCount, ncclInt32, root, rank.comm(), rank.stream()));
      EXPECT_EQ(rank.Get(out, kCount), Cells(root, kCount));
    }
  });
}

// Each rank sends to each, itself, too, all at a time.
TEST_P(FakeNcclTest, SendAndReceiveInAGroup) {
  Run([](FakeRank& rank) {
    const size_t n = static_cast<size_t>(rank.ranks());
    const auto* in = rank.Put(Cells(rank.rank(), n * kCount));
    auto* out = rank.New<int32_t>(n * kCount);
    rank.Check(rank.nccl().ncclGroupStart());
    for (size_t peer = 0; peer < n; ++peer) {
      const int to = static_cast<int>(peer);
      rank.Check(rank.nccl().ncclSend(in + peer * kCount, kCount, ncclInt32, to, rank.comm(), rank.stream()));
      rank.Check(rank.nccl().ncclRecv(out + peer * kCount, kCount, ncclInt32, to, rank.comm(), rank.stream()));
    }
    rank.Check(rank.nccl().ncclGroupEnd());
    const std::vector<int32_t> all = rank.Get(out, n * kCount);
    for (size_t i = 0; i < all.size(); ++i) {
      ASSERT_EQ(all[i], Cell(static_cast<int>(i / kCount), static_cast<size_t>(rank.rank()) * kCount + i % kCount));
    }
  });
}

TEST_P(FakeNcclTest, ARingOfSendsWithoutGroupsWhereOneBegins) {
  Run([](FakeRank& rank) {
    if (rank.ranks() == 1) return;
    auto* token = rank.Put(std::vector<int32_t>{7});
    const int next = (rank.rank() + 1) % rank.ranks();
    const int previous = (rank.rank() + rank.ranks() - 1) % rank.ranks();
    if (rank.rank() > 0) rank.Check(rank.nccl().ncclRecv(token, 1, ncclInt32, previous, rank.comm(), rank.stream()));
    rank.Check(rank.nccl().ncclAllReduce(token, token, 0, ncclInt32, ncclSum, rank.comm(), rank.stream()));
    rank.Check(rank.nccl().ncclSend(token, 1, ncclInt32, next, rank.comm(), rank.stream()));
    if (rank.rank() == 0) rank.Check(rank.nccl().ncclRecv(token, 1, ncclInt32, previous, rank.comm(), rank.stream()));
    EXPECT_EQ(rank.Get(token, 1), std::vector<int32_t>{7});
  });
}

TEST_P(FakeNcclTest, SeveralCollectivesInAGroup) {
  Run([](FakeRank& rank) {
    auto* one = rank.Put(std::vector<int32_t>{rank.rank(), 1});
    auto* other = rank.Put(std::vector<int32_t>{rank.rank() + 10});
    auto* all = rank.New<int32_t>(static_cast<size_t>(rank.ranks()));
    const int before = rank.fakes().nccl_knobs().works;
    rank.Check(rank.nccl().ncclGroupStart());
    rank.Check(rank.nccl().ncclAllReduce(one, one, 2, ncclInt32, ncclSum, rank.comm(), rank.stream()));
    rank.Check(rank.nccl().ncclAllReduce(other, other, 1, ncclInt32, ncclProd, rank.comm(), rank.stream()));
    rank.Check(rank.nccl().ncclAllGather(other, all, 1, ncclInt32, rank.comm(), rank.stream()));
    rank.Check(rank.cuda().cuStreamSynchronize(rank.stream()));
    if (rank.ranks() == 1) {
      EXPECT_EQ(rank.fakes().nccl_knobs().works, before) << "before the group's end";
    }
    rank.Check(rank.nccl().ncclGroupEnd());
    const int n = rank.ranks();
    const int product[] = {1, 10, 110, 1320, 17160};
    EXPECT_EQ(rank.Get(one, 2), (std::vector<int32_t>{n * (n - 1) / 2, n}));
    EXPECT_EQ(rank.Get(all, static_cast<size_t>(n)), std::vector<int32_t>(static_cast<size_t>(n), product[n]));
    if (n == 1) {
      EXPECT_EQ(rank.fakes().nccl_knobs().works, before + 1);
    }
  });
}

}  // namespace
}  // namespace farandole::worker::cuda
