#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "worker/cuda/fake_ranks_testing.h"
#include "worker/cuda/nccl_abi.h"

// Several communicators, several streams, and streams that are slow at random. FARANDOLE_TEST_SEED sets the seed.
namespace farandole::worker::cuda {
namespace {

constexpr int kRanks = 3;

unsigned Seed() {
  const char* const text = std::getenv("FARANDOLE_TEST_SEED");
  return text != nullptr ? static_cast<unsigned>(std::strtoul(text, nullptr, 10)) : std::random_device()();
}

// A communicator made of that of the rank, destroyed with it.
class Part {
 public:
  // `color` as ncclCommSplit; blocks.
  Part(const FakeRank& rank, int color, int key) : nccl_(rank.nccl()) {
    ncclConfig_t config;
    config.blocking = 1;
    rank.Check(nccl_.ncclCommSplit(rank.comm(), color, key, &comm_, &config));
  }
  ~Part() {
    if (comm_ == nullptr) return;
    EXPECT_EQ(nccl_.ncclCommDestroy(comm_), ncclSuccess);
  }
  Part(const Part&) = delete;
  Part& operator=(const Part&) = delete;

  ncclComm_t comm() const { return comm_; }

 private:
  const NcclApi& nccl_;
  ncclComm_t comm_ = nullptr;
};

class Stream {
 public:
  explicit Stream(const FakeRank& rank) : cuda_(rank.cuda()) {
    rank.Check(cuda_.cuStreamCreateWithPriority(&stream_, CU_STREAM_NON_BLOCKING, 0));
  }
  ~Stream() {
    EXPECT_EQ(cuda_.cuStreamSynchronize(stream_), CUDA_SUCCESS);
    EXPECT_EQ(cuda_.cuStreamDestroy(stream_), CUDA_SUCCESS);
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  CUstream get() const { return stream_; }

 private:
  const DriverApi& cuda_;
  CUstream stream_ = nullptr;
};

ncclResult_t Sum(const FakeRank& rank, ncclComm_t comm, CUstream stream, int32_t* both, size_t count = 1) {
  return rank.nccl().ncclAllReduce(both, both, count, ncclInt32, ncclSum, comm, stream);
}

class FakeNcclStreamsTest : public testing::Test {
 protected:
  Fakes fakes_{kRanks};
};

TEST_F(FakeNcclStreamsTest, SplitByColorAndKey) {
  RunRanks(fakes_, kRanks, [](FakeRank& rank) {
    // Ranks 2 and 0, in this order, and rank 1.
    const Part part(rank, rank.rank() == 1 ? 7 : 3, -rank.rank());
    auto* const all = rank.New<int32_t>(2);
    const auto* const mine = rank.Put(std::vector<int32_t>{rank.rank() + 10});
    rank.Check(rank.nccl().ncclAllGather(mine, all, 1, ncclInt32, part.comm(), rank.stream()));
    EXPECT_EQ(rank.Get(all, 2), rank.rank() == 1 ? (std::vector<int32_t>{11, 0}) : (std::vector<int32_t>{12, 10}));
  });
}

TEST_F(FakeNcclStreamsTest, SplitThatLeavesARankOutWithoutBlocking) {
  RunRanks(fakes_, kRanks, [](FakeRank& rank) {
    ncclComm_t part = nullptr;
    const int color = rank.rank() == 2 ? -1 : 0;
    EXPECT_EQ(rank.nccl().ncclCommSplit(rank.comm(), color, 0, &part, nullptr), ncclInProgress);
    EXPECT_EQ(part == nullptr, color == -1);
    // Of the parent, which goes on when the split is done.
    rank.Check(rank.Await());
    auto* const both = rank.Put(std::vector<int32_t>{1});
    if (part != nullptr) rank.Check(Sum(rank, part, rank.stream(), both));
    rank.Check(Sum(rank, rank.comm(), rank.stream(), both));
    EXPECT_EQ(rank.Get(both, 1), std::vector<int32_t>{5});
    if (part != nullptr) rank.Check(rank.nccl().ncclCommDestroy(part));
  });
}

TEST_F(FakeNcclStreamsTest, SplitThatIsAborted) {
  RunRanks(fakes_, kRanks, [](FakeRank& rank) {
    ncclComm_t part = nullptr;
    // Rank 0 does not take part.
    if (rank.rank() == 0) return;
    EXPECT_EQ(rank.nccl().ncclCommSplit(rank.comm(), 0, 0, &part, nullptr), ncclInProgress);
    EXPECT_EQ(rank.State(), ncclInProgress);
    rank.Check(rank.nccl().ncclCommAbort(part));
    rank.Check(rank.Await());
    rank.Check(rank.Abort());
  });
}

// Each stream waits for one communicator only, so the order of the two does not matter.
TEST_F(FakeNcclStreamsTest, TwoCommunicatorsAtOnce) {
  RunRanks(fakes_, kRanks, [](FakeRank& rank) {
    const Part part(rank, 0, 0);
    const Stream other(rank);
    auto* const one = rank.Put(std::vector<int32_t>{1});
    auto* const two = rank.Put(std::vector<int32_t>{1});
    for (int i = 0; i < 5; ++i) {
      if (rank.rank() == 1) rank.Check(Sum(rank, part.comm(), other.get(), two));
      rank.Check(Sum(rank, rank.comm(), rank.stream(), one));
      if (rank.rank() != 1) rank.Check(Sum(rank, part.comm(), other.get(), two));
    }
    rank.Check(rank.cuda().cuStreamSynchronize(other.get()));
    EXPECT_EQ(rank.Get(one, 1), std::vector<int32_t>{243});
    EXPECT_EQ(rank.Get(two, 1), std::vector<int32_t>{243});
  });
}

// Works of one communicator go one after the other, on whatever stream.
TEST_F(FakeNcclStreamsTest, OneCommunicatorOnTwoStreams) {
  fakes_.cuda_knobs().delay_us_max = 300;
  RunRanks(fakes_, kRanks, [](FakeRank& rank) {
    const Stream other(rank);
    auto* const one = rank.Put(std::vector<int32_t>{1});
    auto* const two = rank.Put(std::vector<int32_t>{10});
    for (int i = 0; i < 5; ++i) {
      rank.Check(Sum(rank, rank.comm(), rank.stream(), one));
      rank.Check(Sum(rank, rank.comm(), other.get(), two));
    }
    rank.Check(rank.cuda().cuStreamSynchronize(other.get()));
    EXPECT_EQ(rank.Get(one, 1), std::vector<int32_t>{243});
    EXPECT_EQ(rank.Get(two, 1), std::vector<int32_t>{2430});
  });
}

std::atomic<bool> gate{false};
void WaitForGate(void**) {
  AwaitThat([] { return gate.load(); });
}

// The group begins when all of its streams have come to it, and all go on when it is done.
TEST_F(FakeNcclStreamsTest, AGroupOnTwoStreams) {
  gate = false;
  fakes_.cuda_knobs().add_kernel("gate", WaitForGate, {});
  RunRanks(fakes_, kRanks, [](FakeRank& rank) {
    const Stream late(rank);
    auto* const cells = rank.Put(std::vector<int32_t>{1, 1, 1});
    const auto address = reinterpret_cast<CUdeviceptr>(cells);
    rank.Check(rank.fakes().cuda_knobs().launch("gate", late.get(), nullptr));
    rank.Check(rank.cuda().cuMemsetD8Async(address, 2, 1, late.get()));
    rank.Check(rank.nccl().ncclGroupStart());
    rank.Check(Sum(rank, rank.comm(), rank.stream(), cells, 3));
    rank.Check(Sum(rank, rank.comm(), late.get(), cells, 3));
    rank.Check(rank.nccl().ncclGroupEnd());
    rank.Check(rank.cuda().cuMemsetD8Async(address + sizeof(int32_t), 7, 1, late.get()));
    // On the first stream of each rank.
    AwaitThat([&rank] { return rank.fakes().nccl_knobs().running_kernels == kRanks || gate; });
    gate = true;
    rank.Check(rank.cuda().cuStreamSynchronize(late.get()));
    EXPECT_EQ(rank.Get(cells, 3), (std::vector<int32_t>{18, 7, 9}));
  });
}

// In a group, one thread can initialise, and use, all ranks.
TEST_F(FakeNcclStreamsTest, OneThreadWithAllRanks) {
  FakeRank first(fakes_, {});
  const NcclApi& nccl = fakes_.nccl();
  ncclUniqueId id;
  first.Check(nccl.ncclGetUniqueId(&id));
  ncclComm_t comms[2] = {};
  ncclConfig_t config;
  config.blocking = 1;
  FakeRank second(fakes_, {0, 1, {}, 1});
  CUcontext context = nullptr;
  first.Check(nccl.ncclGroupStart());
  for (const int rank : {1, 0}) {
    first.Check(first.cuda().cuDevicePrimaryCtxRetain(&context, rank));
    first.Check(first.cuda().cuCtxSetCurrent(context));
    first.Check(nccl.ncclCommInitRankConfig(&comms[rank], 2, id, rank, &config));
    first.Check(first.cuda().cuDevicePrimaryCtxRelease(rank));
  }
  first.Check(nccl.ncclGroupEnd());
  auto* const one = first.Put(std::vector<int32_t>{3});
  first.Check(first.cuda().cuDevicePrimaryCtxRetain(&context, 1));
  first.Check(first.cuda().cuCtxSetCurrent(context));
  auto* const two = second.Put(std::vector<int32_t>{4});
  first.Check(first.cuda().cuDevicePrimaryCtxRelease(1));
  first.Check(nccl.ncclGroupStart());
  first.Check(Sum(first, comms[0], first.stream(), one));
  first.Check(Sum(second, comms[1], second.stream(), two));
  first.Check(nccl.ncclGroupEnd());
  EXPECT_EQ(first.Get(one, 1), std::vector<int32_t>{7});
  EXPECT_EQ(second.Get(two, 1), std::vector<int32_t>{7});
  first.Check(nccl.ncclCommDestroy(comms[0]));
  first.Check(nccl.ncclCommDestroy(comms[1]));
}

TEST_F(FakeNcclStreamsTest, ManyWorksOnSlowStreams) {
  const unsigned seed = Seed();
  SCOPED_TRACE("FARANDOLE_TEST_SEED=" + std::to_string(seed));
  fakes_.cuda_knobs().seed = seed;
  fakes_.cuda_knobs().delay_us_max = 200;
  RunRanks(fakes_, kRanks, [seed](FakeRank& rank) {
    const Part part(rank, 0, 0);
    const Stream other(rank);
    auto* const one = rank.Put(std::vector<int32_t>{rank.rank(), rank.rank()});
    auto* const two = rank.New<int32_t>(kRanks);
    // The same on all ranks.
    std::mt19937 random(seed);
    int32_t expected = 0 + 1 + 2;
    rank.Check(Sum(rank, rank.comm(), rank.stream(), one, 2));
    for (int i = 0; i < 30; ++i) {
      if (random() % 3 == 0) {
        rank.Check(rank.nccl().ncclAllGather(two + rank.rank(), two, 1, ncclInt32, part.comm(), other.get()));
      } else if (random() % 2 == 0) {
        rank.Check(rank.nccl().ncclBroadcast(one, one, 2, ncclInt32, 1, rank.comm(), rank.stream()));
      } else {
        rank.Check(rank.nccl().ncclAllReduce(one, one, 2, ncclUint32, ncclSum, rank.comm(), rank.stream()));
        expected = static_cast<int32_t>(3u * static_cast<unsigned>(expected));
      }
    }
    rank.Check(rank.cuda().cuStreamSynchronize(other.get()));
    EXPECT_EQ(rank.Get(one, 2), (std::vector<int32_t>{expected, expected}));
  });
}

}  // namespace
}  // namespace farandole::worker::cuda
