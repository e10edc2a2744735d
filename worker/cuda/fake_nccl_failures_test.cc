#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/cuda/fake_ranks_testing.h"
#include "worker/cuda/nccl_abi.h"

// What a test can let fail.
namespace farandole::worker::cuda {
namespace {

std::atomic<bool> gate{false};
void WaitForGate(void**) {
  AwaitThat([] { return gate.load(); });
}

class FakeNcclFailuresTest : public testing::Test {
 protected:
  static constexpr int kDevices = 3;

  ~FakeNcclFailuresTest() override { knobs_.reset(); }

  FakeRank::Place PlaceOf(int rank, int ranks) {
    FakeRank::Place place = {rank, ranks, {}, -1};
    EXPECT_EQ(fakes_.nccl().ncclGetUniqueId(&place.id), ncclSuccess);
    return place;
  }
  static ncclResult_t Sum(FakeRank& rank, int32_t* both) {
    return rank.nccl().ncclAllReduce(both, both, 1, ncclInt32, ncclSum, rank.comm(), rank.stream());
  }
  std::string LastError() const { return fakes_.nccl().ncclGetLastError(nullptr); }

  Fakes fakes_{kDevices};
  FakeNccl& knobs_ = fakes_.nccl_knobs();
};

TEST_F(FakeNcclFailuresTest, AnInitThatFailsAndOneThatWaitsForIt) {
  knobs_.at_rank = 1;
  knobs_.init_result = ncclSystemError;
  knobs_.init_text = "no such luck";
  RunRanks(
      fakes_, 2,
      [this](FakeRank& rank) {
        EXPECT_EQ(rank.Begin(), ncclInProgress);
        if (rank.rank() == 1) {
          EXPECT_EQ(rank.Await(), ncclSystemError);
          EXPECT_EQ(LastError(), "no such luck");
        } else {
          EXPECT_EQ(rank.State(), ncclInProgress);
        }
        rank.Check(rank.Abort());
      },
      false);
}

TEST_F(FakeNcclFailuresTest, ABlockingInitThatFails) {
  knobs_.init_result = ncclSystemError;
  FakeRank rank(fakes_, PlaceOf(0, 1));
  ncclConfig_t config;
  ncclComm_t comm = nullptr;
  const FakeRank::Place place = PlaceOf(0, 1);
  EXPECT_EQ(fakes_.nccl().ncclCommInitRankConfig(&comm, 1, place.id, 0, &config), ncclSystemError);
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(fakes_.nccl().ncclCommInitRankConfig(&comm, 1, place.id, 0, nullptr), ncclSystemError);
}

// Nor does that of the other rank.
TEST_F(FakeNcclFailuresTest, AnInitThatNeverEnds) {
  knobs_.at_rank = 1;
  knobs_.init_never_ends = true;
  FakeRank::Place place = PlaceOf(0, 2);
  FakeRank first(fakes_, place);
  place.rank = 1;
  FakeRank second(fakes_, place);
  EXPECT_EQ(first.Begin(), ncclInProgress);
  EXPECT_EQ(second.Begin(), ncclInProgress);
  // Takes as long as theirs would.
  for (int i = 0; i < 10; ++i) {
    FakeRank other(fakes_, PlaceOf(0, 1));
    other.Init();
  }
  EXPECT_EQ(first.State(), ncclInProgress);
  EXPECT_EQ(second.State(), ncclInProgress);
  first.Check(first.Abort());
  second.Check(second.Abort());
}

TEST_F(FakeNcclFailuresTest, AnInitThatWaitsTooLong) {
  knobs_.init_limit_ms = 1;
  FakeRank first(fakes_, PlaceOf(0, 2));
  FakeRank second(fakes_, PlaceOf(1, 2));
  EXPECT_EQ(first.Begin(), ncclInProgress);
  EXPECT_EQ(second.Begin(), ncclInProgress);
  EXPECT_EQ(first.Await(), ncclSystemError);
  EXPECT_EQ(second.Await(), ncclSystemError);
  first.Check(first.Abort());
  second.Check(second.Abort());
}

TEST_F(FakeNcclFailuresTest, AKernelThatWaitsTooLong) {
  knobs_.kernel_limit_ms = 1;
  RunRanks(fakes_, 2, [](FakeRank& rank) {
    auto* const both = rank.New<int32_t>(1);
    if (rank.rank() == 1) return;
    rank.Check(Sum(rank, both));
    AwaitThat([&rank] { return rank.State() == ncclSystemError; });
    rank.Check(rank.Abort());
  });
}

// The others notice nothing, and wait.
TEST_F(FakeNcclFailuresTest, AnAsynchronousErrorOfOneRank) {
  knobs_.at_rank = 1;
  knobs_.async_error_after = 2;
  knobs_.async_error = ncclRemoteError;
  knobs_.async_text = "a network error";
  std::atomic<int> aborted{0};
  RunRanks(fakes_, 3, [&](FakeRank& rank) {
    auto* const both = rank.Put(std::vector<int32_t>{1});
    rank.Check(Sum(rank, both));
    rank.Check(Sum(rank, both));
    EXPECT_EQ(rank.Get(both, 1), std::vector<int32_t>{9});
    if (rank.rank() == 1) {
      EXPECT_EQ(rank.Await(), ncclRemoteError);
      EXPECT_EQ(Sum(rank, both), ncclRemoteError);
      EXPECT_EQ(rank.nccl().ncclCommDestroy(rank.comm()), ncclRemoteError);
      EXPECT_NE(LastError().find("a network error"), std::string::npos) << LastError();
    } else {
      rank.Check(Sum(rank, both));
      EXPECT_EQ(rank.State(), ncclSuccess);
    }
    AwaitThat([this] { return knobs_.running_kernels == 2; });
    ++aborted;
    AwaitThat([&aborted] { return aborted == 3; });
    rank.Check(rank.Abort());
  });
}

// What was queued before the error does not end.
TEST_F(FakeNcclFailuresTest, AnAsynchronousErrorBetweenQueuedWorks) {
  knobs_.async_error_after = 1;
  FakeRank rank(fakes_, PlaceOf(0, 1));
  rank.Init();
  auto* const both = rank.New<int32_t>(1);
  gate = false;
  fakes_.cuda_knobs().add_kernel("gate", WaitForGate, {});
  EXPECT_EQ(fakes_.cuda_knobs().launch("gate", rank.stream(), nullptr), CUDA_SUCCESS);
  rank.Check(Sum(rank, both));
  rank.Check(Sum(rank, both));
  gate = true;
  AwaitThat([&rank] { return rank.State() == ncclInternalError; });
  AwaitThat([this] { return knobs_.running_kernels == 1 && knobs_.works == 1; });
  EXPECT_EQ(rank.cuda().cuStreamQuery(rank.stream()), CUDA_ERROR_NOT_READY);
  rank.Check(rank.Abort());
  rank.Check(rank.cuda().cuStreamSynchronize(rank.stream()));
}

TEST_F(FakeNcclFailuresTest, AnErrorAtTheEndOfTheInit) {
  knobs_.async_error_after = 0;
  FakeRank rank(fakes_, PlaceOf(0, 1));
  EXPECT_EQ(rank.Begin(), ncclInProgress);
  EXPECT_EQ(rank.Await(), ncclInternalError);
  rank.Check(rank.Abort());
}

TEST_F(FakeNcclFailuresTest, ACallThatFails) {
  knobs_.at_rank = 0;
  knobs_.failing_call = "ncclAllReduce";
  knobs_.failing_call_after = 1;
  knobs_.failing_result = ncclUnhandledCudaError;
  FakeRank rank(fakes_, PlaceOf(0, 1));
  rank.Init();
  auto* const both = rank.New<int32_t>(1);
  rank.Check(Sum(rank, both));
  EXPECT_EQ(Sum(rank, both), ncclUnhandledCudaError);
  EXPECT_EQ(LastError(), "the test lets ncclAllReduce fail");
  rank.Check(rank.nccl().ncclGroupStart());
  EXPECT_EQ(Sum(rank, both), ncclUnhandledCudaError);
  EXPECT_EQ(rank.nccl().ncclGroupEnd(), ncclUnhandledCudaError);
  knobs_.at_rank = 1;
  rank.Check(Sum(rank, both));
}

TEST_F(FakeNcclFailuresTest, AGroupOrAnInitThatFails) {
  FakeRank rank(fakes_, PlaceOf(0, 1));
  knobs_.failing_call = "ncclCommInitRankConfig";
  EXPECT_EQ(rank.Begin(), ncclInternalError);
  EXPECT_EQ(rank.comm(), nullptr);
  knobs_.failing_call = nullptr;
  rank.Init();
  auto* const both = rank.New<int32_t>(1);
  knobs_.failing_call = "ncclGroupEnd";
  rank.Check(rank.nccl().ncclGroupStart());
  rank.Check(Sum(rank, both));
  EXPECT_EQ(rank.nccl().ncclGroupEnd(), ncclInternalError);
  knobs_.failing_call = nullptr;
  rank.Check(rank.cuda().cuStreamSynchronize(rank.stream()));
  EXPECT_EQ(knobs_.works, 0);
}

// The work is on the stream only when ncclCommGetAsyncError has said ncclSuccess.
TEST_F(FakeNcclFailuresTest, CallsThatAreInProgress) {
  knobs_.polls_in_progress = 2;
  RunRanks(fakes_, 2, [](FakeRank& rank) {
    auto* const both = rank.Put(std::vector<int32_t>{1});
    EXPECT_EQ(Sum(rank, both), ncclInProgress);
    EXPECT_EQ(rank.cuda().cuStreamQuery(rank.stream()), CUDA_SUCCESS);
    EXPECT_EQ(rank.State(), ncclInProgress);
    EXPECT_EQ(Sum(rank, both), ncclInvalidUsage);
    EXPECT_EQ(rank.State(), ncclInProgress);
    EXPECT_EQ(rank.cuda().cuStreamQuery(rank.stream()), CUDA_SUCCESS);
    EXPECT_EQ(rank.State(), ncclSuccess);
    EXPECT_EQ(rank.Get(both, 1), std::vector<int32_t>{2});
    rank.Check(rank.nccl().ncclGroupStart());
    rank.Check(Sum(rank, both));
    EXPECT_EQ(rank.nccl().ncclGroupEnd(), ncclInProgress);
    rank.Check(rank.Await());
    EXPECT_EQ(rank.Get(both, 1), std::vector<int32_t>{4});
  });
}

// Nothing of the device can be used any more, and what is given back is.
TEST_F(FakeNcclFailuresTest, ADeviceThatHasFailed) {
  FakeRank rank(fakes_, PlaceOf(0, 2));
  EXPECT_EQ(rank.Begin(), ncclInProgress);
  FakeRank alone(fakes_, PlaceOf(0, 1));
  alone.Init();
  auto* const both = alone.New<int32_t>(1);
  fakes_.cuda_knobs().sticky_error = CUDA_ERROR_ILLEGAL_ADDRESS;
  EXPECT_EQ(Sum(alone, both), ncclUnhandledCudaError);
  rank.Check(rank.Abort());
  alone.Check(alone.Abort());
}

}  // namespace
}  // namespace farandole::worker::cuda
