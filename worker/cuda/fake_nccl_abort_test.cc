#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <filesystem>
#include <iterator>
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

  FakeNcclAbortTest() {
    EXPECT_EQ(fakes_.nccl().ncclGetUniqueId(&id_), ncclSuccess);
    descriptors_ = Descriptors();
  }
  ~FakeNcclAbortTest() override { EXPECT_EQ(Descriptors(), descriptors_) << "a socket was left"; }

  static ptrdiff_t Descriptors() {
    const std::filesystem::directory_iterator all("/proc/self/fd");
    return std::distance(begin(all), end(all));
  }

  FakeRank::Place PlaceOf(int rank, int ranks) const { return {rank, ranks, id_, -1}; }
  ncclResult_t Sum(FakeRank& rank, int32_t* both) {
    return fakes_.nccl().ncclAllReduce(both, both, 1, ncclInt32, ncclSum, rank.comm(), rank.stream());
  }
  std::string LastError() const { return fakes_.nccl().ncclGetLastError(nullptr); }

  Fakes fakes_{kDevices};
  ncclUniqueId id_;
  ptrdiff_t descriptors_;
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

// Of one that blocks there is no handle meanwhile.
TEST_F(FakeNcclAbortTest, InitThatBlocksWaitsForAll) {
  RunRanks(
      fakes_, 3,
      [&](FakeRank& rank) {
        ncclConfig_t config;
        ncclComm_t comm = nullptr;
        rank.Check(fakes_.nccl().ncclCommInitRankConfig(&comm, 3, id_, rank.rank(), &config));
        ncclResult_t state = ncclInProgress;
        rank.Check(fakes_.nccl().ncclCommGetAsyncError(comm, &state));
        rank.Check(state);
        rank.Check(fakes_.nccl().ncclCommDestroy(comm));
      },
      false);
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
  std::atomic<int> aborted{0};
  RunRanks(fakes_, 3, [&](FakeRank& rank) {
    auto* both = rank.New<int32_t>(1);
    if (rank.rank() == 1) {
      // Never comes, and is there until the end.
      AwaitThat([&] { return fakes_.nccl_knobs().running_kernels == 2; });
      both_wait = true;
      AwaitThat([&] { return aborted == 2; });
      return;
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
    ++aborted;
  });
}

// Its kernels are not run any more; what is behind them on the stream is.
TEST_F(FakeNcclAbortTest, LetsTheStreamGoOn) {
  RunRanks(fakes_, 2, [&](FakeRank& rank) {
    if (rank.rank() == 1) return rank.Check(rank.Abort());
    auto* both = rank.Put(std::vector<int32_t>{5});
    for (int i = 0; i < 10; ++i) rank.Check(Sum(rank, both));
    rank.Check(rank.cuda().cuMemsetD8Async(reinterpret_cast<CUdeviceptr>(both), 1, 1, rank.stream()));
    rank.Check(rank.Abort());
    EXPECT_EQ(rank.Get(both, 1), std::vector<int32_t>{1});
  });
}

TEST_F(FakeNcclAbortTest, DestroyWaitsForItsWork) {
  fakes_.cuda_knobs().delay_us_max = 500;
  RunRanks(fakes_, 2, [&](FakeRank& rank) {
    auto* both = rank.Put(std::vector<int32_t>{1});
    for (int i = 0; i < 5; ++i) rank.Check(Sum(rank, both));
    rank.Destroy();
    EXPECT_EQ(rank.Get(both, 1), std::vector<int32_t>{32});
  });
  EXPECT_EQ(fakes_.nccl_knobs().works, 10);
}

TEST_F(FakeNcclAbortTest, FinalizeIsInProgressWhileThereIsWork) {
  RunRanks(fakes_, 2, [&](FakeRank& rank) {
    auto* both = rank.Put(std::vector<int32_t>{1});
    if (rank.rank() == 1) AwaitThat([&] { return fakes_.nccl_knobs().running_kernels == 1; });
    rank.Check(Sum(rank, both));
    if (rank.rank() == 0) {
      EXPECT_EQ(fakes_.nccl().ncclCommFinalize(rank.comm()), ncclInProgress);
    }
    rank.Check(rank.Await());
    EXPECT_EQ(rank.Get(both, 1), std::vector<int32_t>{2});
  });
}

}  // namespace
}  // namespace farandole::worker::cuda
