#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "worker/cuda/fake_ranks_testing.h"
#include "worker/cuda/nccl_abi.h"

// Inits that go on by themselves, and what ends what waits.
namespace farandole::worker::cuda {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::seconds kSoon(1);

class FakeNcclAbortTest : public testing::Test {
 protected:
  static constexpr int kDevices = 3;

  FakeNcclAbortTest() { EXPECT_EQ(fakes_.nccl().ncclGetUniqueId(&id_), ncclSuccess); }

  FakeRank::Place PlaceOf(int rank, int ranks) const { return {rank, ranks, id_, -1}; }
  ncclResult_t Sum(FakeRank& rank, int32_t* both) {
    return fakes_.nccl().ncclAllReduce(both, both, 1, ncclInt32, ncclSum, rank.comm(), rank.stream());
  }
  std::string LastError() const { return fakes_.nccl().ncclGetLastError(nullptr); }

  Fakes fakes_{kDevices};
  ncclUniqueId id_;
};

TEST_F(FakeNcclAbortTest, InitIsInProgressUntilAllHaveCome) {
  FakeRank first(fakes_, PlaceOf(0, 2));
  EXPECT_EQ(first.Begin(), ncclInProgress);
  EXPECT_EQ(first.State(), ncclInProgress);
  EXPECT_EQ(Sum(first, nullptr), ncclInvalidUsage);
  EXPECT_NE(LastError().find("before the previous operation returned ncclSuccess"), std::string::npos) << LastError();
  EXPECT_EQ(fakes_.nccl().ncclCommDestroy(first.comm()), ncclInvalidUsage) << "it can be aborted only";
  FakeRank second(fakes_, PlaceOf(1, 2));
  EXPECT_EQ(second.Begin(), ncclInProgress);
  EXPECT_EQ(first.Await(), ncclSuccess);
  EXPECT_EQ(second.Await(), ncclSuccess);
}

TEST_F(FakeNcclAbortTest, EndsAnInit) {
  for (const int rank : {0, 1}) {
    FakeRank alone(fakes_, PlaceOf(rank, 2));
    EXPECT_EQ(alone.Begin(), ncclInProgress);
    const Clock::time_point begin = Clock::now();
    EXPECT_EQ(alone.Abort(), ncclSuccess);
    EXPECT_LT(Clock::now() - begin, kSoon);
  }
}

// From another thread than that which waits for the stream.
TEST_F(FakeNcclAbortTest, EndsAKernelThatWaits) {
  std::atomic<bool> both_wait{false};
  RunRanks(fakes_, 3, [&](FakeRank& rank) {
    auto* both = rank.New<int32_t>(1);
    if (rank.rank() == 1) {
      // Never comes.
      AwaitThat([&] { return fakes_.nccl_knobs().running_kernels == 2; });
      both_wait = true;
      return rank.Check(rank.Abort());
    }
    rank.Check(Sum(rank, both));
    AwaitThat([&] { return both_wait.load(); });
    EXPECT_EQ(rank.cuda().cuStreamQuery(rank.stream()), CUDA_ERROR_NOT_READY);
    EXPECT_EQ(rank.State(), ncclSuccess);
    const Clock::time_point begin = Clock::now();
    std::thread other([&] { EXPECT_EQ(rank.Abort(), ncclSuccess); });
    rank.Check(rank.cuda().cuStreamSynchronize(rank.stream()));
    EXPECT_LT(Clock::now() - begin, kSoon);
    other.join();
  });
}

}  // namespace
}  // namespace farandole::worker::cuda
