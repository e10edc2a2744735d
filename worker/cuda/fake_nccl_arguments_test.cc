#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "worker/cuda/fake_ranks_testing.h"
#include "worker/cuda/nccl_abi.h"

// What a real NCCL would refuse, or would have to.
namespace farandole::worker::cuda {
namespace {

// A communicator of one rank, with memory for four numbers.
class FakeNcclArgumentsTest : public testing::Test {
 protected:
  FakeNcclArgumentsTest() {
    rank_.Init();
    memory_ = rank_.New<float>(4);
  }

  FakeRank::Place Place() {
    FakeRank::Place place;
    EXPECT_EQ(fakes_.nccl().ncclGetUniqueId(&place.id), ncclSuccess);
    return place;
  }
  ncclResult_t AllReduce(const void* in, size_t count = 4, int type = ncclFloat32, int op = ncclSum) {
    return nccl_.ncclAllReduce(in, memory_, count, static_cast<ncclDataType_t>(type), static_cast<ncclRedOp_t>(op),
                               rank_.comm(), rank_.stream());
  }
  void ExpectLastError(const std::string& part) {
    const std::string error = nccl_.ncclGetLastError(nullptr);
    EXPECT_NE(error.find(part), std::string::npos) << error;
  }

  Fakes fakes_{2};
  const NcclApi& nccl_ = fakes_.nccl();
  FakeRank rank_{fakes_, Place()};
  float* memory_ = nullptr;
};

TEST_F(FakeNcclArgumentsTest, Memory) {
  float host = 0;
  EXPECT_EQ(AllReduce(memory_), ncclSuccess);
  EXPECT_EQ(AllReduce(nullptr), ncclInvalidArgument);
  EXPECT_EQ(AllReduce(&host, 1), ncclInvalidArgument);
  EXPECT_EQ(AllReduce(memory_ + 1), ncclInvalidArgument) << "one number too many";
  ExpectLastError("this is no device memory, or too little");
  EXPECT_EQ(AllReduce(nullptr, 0), ncclSuccess);
}

TEST_F(FakeNcclArgumentsTest, TypesOperationsAndRoots) {
  EXPECT_EQ(AllReduce(memory_, 1, ncclBfloat16 + 1), ncclInvalidArgument);
  EXPECT_EQ(AllReduce(memory_, 1, -1), ncclInvalidArgument);
  ExpectLastError("ncclAllReduce : unknown type");
  EXPECT_EQ(AllReduce(memory_, 1, ncclFloat32, ncclAvg + 1), ncclInvalidArgument);
  EXPECT_EQ(AllReduce(memory_, 1, ncclFloat32, -1), ncclInvalidArgument);
  for (const int root : {-1, 1}) {
    EXPECT_EQ(nccl_.ncclBroadcast(memory_, memory_, 1, ncclFloat32, root, rank_.comm(), rank_.stream()),
              ncclInvalidArgument);
    EXPECT_EQ(nccl_.ncclSend(memory_, 1, ncclFloat32, root, rank_.comm(), rank_.stream()), ncclInvalidArgument);
  }
}

TEST_F(FakeNcclArgumentsTest, OperationsOfAnotherTypeOrCommunicator) {
  float two = 2;
  ncclRedOp_t op = ncclSum;
  EXPECT_EQ(nccl_.ncclRedOpCreatePreMulSum(&op, &two, ncclFloat32, ncclScalarDevice, rank_.comm()),
            ncclInvalidArgument);
  rank_.Check(nccl_.ncclRedOpCreatePreMulSum(&op, &two, ncclFloat32, ncclScalarHostImmediate, rank_.comm()));
  EXPECT_EQ(AllReduce(memory_, 1, ncclFloat32, op), ncclSuccess);
  EXPECT_EQ(AllReduce(memory_, 1, ncclFloat64, op), ncclInvalidArgument);
  FakeRank other(fakes_, Place());
  other.Init();
  EXPECT_EQ(nccl_.ncclAllReduce(memory_, memory_, 1, ncclFloat32, op, other.comm(), other.stream()),
            ncclInvalidArgument);
  rank_.Check(nccl_.ncclRedOpDestroy(op, rank_.comm()));
  EXPECT_EQ(nccl_.ncclRedOpDestroy(op, rank_.comm()), ncclInvalidArgument);
  EXPECT_EQ(AllReduce(memory_, 1, ncclFloat32, op), ncclInvalidArgument);
}

TEST_F(FakeNcclArgumentsTest, CommunicatorsThatAreGone) {
  const ncclComm_t gone = rank_.comm();
  rank_.Check(rank_.Abort());
  EXPECT_EQ(nccl_.ncclAllReduce(memory_, memory_, 1, ncclFloat32, ncclSum, gone, rank_.stream()), ncclInvalidArgument);
  ExpectLastError("comm argument is NULL, destroyed or aborted");
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(nccl_.ncclCommGetAsyncError(gone, &state), ncclInvalidArgument);
  EXPECT_EQ(nccl_.ncclCommGetAsyncError(nullptr, &state), ncclInvalidArgument);
  EXPECT_EQ(nccl_.ncclCommAbort(gone), ncclInvalidArgument);
  EXPECT_EQ(nccl_.ncclCommDestroy(gone), ncclInvalidArgument);
  EXPECT_EQ(nccl_.ncclCommAbort(nullptr), ncclSuccess);
}

TEST_F(FakeNcclArgumentsTest, WorkAfterFinalize) {
  EXPECT_EQ(AllReduce(memory_), ncclSuccess);
  const ncclResult_t finalized = nccl_.ncclCommFinalize(rank_.comm());
  EXPECT_TRUE(finalized == ncclSuccess || finalized == ncclInProgress);
  EXPECT_EQ(rank_.Await(), ncclSuccess);
  EXPECT_EQ(AllReduce(memory_), ncclInvalidUsage);
  EXPECT_EQ(nccl_.ncclCommFinalize(rank_.comm()), ncclInvalidArgument);
}

TEST_F(FakeNcclArgumentsTest, Inits) {
  ncclConfig_t config;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = Place().id;
  EXPECT_EQ(nccl_.ncclCommInitRankConfig(nullptr, 1, id, 0, &config), ncclInvalidArgument);
  EXPECT_EQ(nccl_.ncclCommInitRankConfig(&comm, 0, id, 0, &config), ncclInvalidArgument);
  EXPECT_EQ(nccl_.ncclCommInitRankConfig(&comm, 2, id, 2, &config), ncclInvalidArgument);
  ExpectLastError("Invalid rank requested : 2/2");
  EXPECT_EQ(nccl_.ncclCommInitRankConfig(&comm, 1, {}, 0, &config), ncclInvalidArgument);
  ExpectLastError("is not one that ncclGetUniqueId has made");
  config.magic = 0;
  EXPECT_EQ(nccl_.ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  ExpectLastError("NCCL_CONFIG_INITIALIZER");
  EXPECT_EQ(comm, nullptr);
  EXPECT_EQ(nccl_.ncclGetUniqueId(nullptr), ncclInvalidArgument);
}

TEST_F(FakeNcclArgumentsTest, Groups) {
  EXPECT_EQ(nccl_.ncclGroupEnd(), ncclInvalidUsage);
  EXPECT_EQ(nccl_.ncclSend(memory_, 1, ncclFloat32, 0, rank_.comm(), rank_.stream()), ncclInvalidUsage);
  ExpectLastError("Trying to send to self without a matching recv");
  // What is wrong in a group is the group's, which then does nothing; the next is a new one.
  const int works = fakes_.nccl_knobs().works;
  rank_.Check(nccl_.ncclGroupStart());
  rank_.Check(nccl_.ncclGroupStart());
  EXPECT_EQ(AllReduce(memory_), ncclSuccess);
  EXPECT_EQ(AllReduce(nullptr), ncclInvalidArgument);
  rank_.Check(nccl_.ncclGroupEnd());
  EXPECT_EQ(nccl_.ncclGroupEnd(), ncclInvalidArgument);
  rank_.Check(rank_.cuda().cuStreamSynchronize(rank_.stream()));
  EXPECT_EQ(fakes_.nccl_knobs().works, works);
  EXPECT_EQ(AllReduce(memory_), ncclSuccess);
}

TEST_F(FakeNcclArgumentsTest, AnotherDevicesMemoryAndStream) {
  const ncclComm_t comm = rank_.comm();
  FakeRank::Place place = Place();
  place.device = 1;
  FakeRank other(fakes_, place);
  other.Init();
  auto* const memory = other.New<float>(1);
  EXPECT_EQ(nccl_.ncclAllReduce(memory, memory, 1, ncclFloat32, ncclSum, comm, rank_.stream()), ncclInvalidArgument);
  EXPECT_EQ(nccl_.ncclAllReduce(memory_, memory_, 1, ncclFloat32, ncclSum, comm, other.stream()),
            ncclUnhandledCudaError);
  ExpectLastError("invalid resource handle");
}

TEST_F(FakeNcclArgumentsTest, RegisteredMemory) {
  void* handle = nullptr;
  rank_.Check(nccl_.ncclCommRegister(rank_.comm(), memory_, 16, &handle));
  EXPECT_EQ(fakes_.nccl_knobs().live_registrations, 1);
  rank_.Check(nccl_.ncclCommDeregister(rank_.comm(), handle));
  EXPECT_EQ(nccl_.ncclCommDeregister(rank_.comm(), handle), ncclInvalidArgument);
  EXPECT_EQ(nccl_.ncclCommRegister(rank_.comm(), &handle, 8, &handle), ncclInvalidArgument);
}

// Each rank may see it, or find that there is nobody left.
TEST(FakeNcclDisagreementTest, TwoRanksOfOneDevice) {
  Fakes fakes(1);
  FakeRank::Place place = {0, 2, {}, 0};
  ASSERT_EQ(fakes.nccl().ncclGetUniqueId(&place.id), ncclSuccess);
  FakeRank first(fakes, place);
  place.rank = 1;
  FakeRank second(fakes, place);
  EXPECT_EQ(first.Begin(), ncclInProgress);
  EXPECT_EQ(second.Begin(), ncclInProgress);
  EXPECT_EQ(first.Await(), ncclInvalidUsage);
  EXPECT_EQ(second.Await(), ncclInvalidUsage);
  EXPECT_EQ(fakes.nccl().ncclGetLastError(nullptr),
            std::string("Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 0"));
  first.Check(first.Abort());
  second.Check(second.Abort());
}

// NCCL would hang; a test shall know why.
TEST(FakeNcclDisagreementTest, CollectivesThatDiffer) {
  Fakes fakes(2);
  RunRanks(fakes, 2, [](FakeRank& rank) {
    auto* const memory = rank.New<int32_t>(2);
    const size_t count = rank.rank() == 0 ? 1 : 2;
    rank.Check(rank.nccl().ncclAllReduce(memory, memory, count, ncclInt32, ncclSum, rank.comm(), rank.stream()));
    AwaitThat([&rank] { return rank.State() != ncclSuccess; });
    EXPECT_EQ(rank.State(), ncclInternalError);
    EXPECT_EQ(rank.cuda().cuStreamQuery(rank.stream()), CUDA_ERROR_NOT_READY);
    const std::string error = rank.nccl().ncclGetLastError(nullptr);
    EXPECT_NE(error.find("the ranks do not agree"), std::string::npos) << error;
    rank.Check(rank.Abort());
  });
}

TEST(FakeNcclDisagreementTest, SendsThatAreNotExpected) {
  Fakes fakes(2);
  std::atomic<bool> seen{false};
  RunRanks(fakes, 2, [&seen](FakeRank& rank) {
    auto* const memory = rank.New<int32_t>(2);
    if (rank.rank() == 0) {
      rank.Check(rank.nccl().ncclSend(memory, 2, ncclInt32, 1, rank.comm(), rank.stream()));
      AwaitThat([&seen] { return seen.load(); });
    } else {
      rank.Check(rank.nccl().ncclRecv(memory, 1, ncclInt32, 0, rank.comm(), rank.stream()));
      AwaitThat([&rank] { return rank.State() != ncclSuccess; });
      const std::string error = rank.nccl().ncclGetLastError(nullptr);
      EXPECT_NE(error.find("rank 0 sends in a send or receive of 2 elements"), std::string::npos) << error;
      seen = true;
    }
    // Also the one that sends: what it sends may not have gone when the other one goes, and would be waited for.
    rank.Check(rank.Abort());
  });
}

}  // namespace
}  // namespace farandole::worker::cuda
