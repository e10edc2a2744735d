// Counts beyond 2^31 on the communicators of one process: needs 12 GB of memory and minutes, so `make test-large`.

#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/schedule/scheduled_testing.h"
#include "worker/shm/shm_communicator.h"

namespace farandole::worker::select {
namespace {

constexpr int kRanks = 2;
constexpr int64_t kCount = (int64_t{1} << 31) + 12345;
constexpr DataType kType = DataType::kInt8;

// Byte `at` of a rank. The period divides no power of two, so that a place that is off by 2^31 or 2^32 shows.
char Byte(int rank, int64_t at) { return static_cast<char>((at % 101 + rank * 3) % 50); }

// Cells to look at: some everywhere, all near the ends and near 2^31.
template <typename F>
void AtMany(int64_t count, F look) {
  constexpr int64_t kNear = 100000, kPower = int64_t{1} << 31;
  for (int64_t at = 0; at < count; ++at) {
    const bool near = at < kNear || at > count - kNear || (at > kPower - kNear && at < kPower + kNear);
    look(at);
    if (!near) at += 996;
  }
}

class LargeCountTest : public testing::TestWithParam<const char*> {
 protected:
  void RunRanks(const std::function<void(collective::BlockingCommunicator& communicator)>& body) {
    if (std::strcmp(GetParam(), "tcp") == 0) {
      return schedule::RunScheduledRanks(
          kRanks, "tcp", schedule::ScheduledOptions(),
          [&](schedule::ScheduledCommunicator* communicator, int) { body(*communicator); });
    }
    collective::LocalBootstrap bootstrap;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        auto communicator =
            shm::ShmCommunicator::Create(collective::TestGroup(kRanks, rank), &bootstrap, shm::ShmOptions());
        ASSERT_TRUE(communicator.ok()) << communicator.status();
        body(**communicator);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
};

std::vector<char> Operand(int rank, int64_t count) {
  std::vector<char> data(count);
  for (int64_t at = 0; at < count; ++at) data[at] = Byte(rank, at);
  return data;
}

TEST_P(LargeCountTest, Allreduce) {
  RunRanks([](collective::BlockingCommunicator& communicator) {
    std::vector<char> data = Operand(communicator.position(), kCount);
    const absl::Status s = communicator.Allreduce({1, 1, 0}, kType, data.data(), kCount);
    ASSERT_TRUE(s.ok()) << s;
    int64_t wrong = 0;
    AtMany(kCount, [&](int64_t at) { wrong += data[at] != Byte(0, at) + Byte(1, at); });
    EXPECT_EQ(wrong, 0);
  });
}

TEST_P(LargeCountTest, AllgatherOfPartsThatAreLargeTogether) {
  RunRanks([](collective::BlockingCommunicator& communicator) {
    const std::vector<int64_t> counts = {kCount - 777, 1000};
    const std::vector<char> data = Operand(communicator.position(), counts[communicator.position()]);
    std::vector<char> all(counts[0] + counts[1]);
    const absl::Status s = communicator.Allgather({1, 1, 0}, data.data(), all.data(), counts);
    ASSERT_TRUE(s.ok()) << s;
    int64_t wrong = 0;
    AtMany(counts[0] + counts[1],
           [&](int64_t at) { wrong += all[at] != (at < counts[0] ? Byte(0, at) : Byte(1, at - counts[0])); });
    EXPECT_EQ(wrong, 0);
  });
}

TEST_P(LargeCountTest, Broadcast) {
  RunRanks([](collective::BlockingCommunicator& communicator) {
    std::vector<char> data = Operand(communicator.position(), kCount);
    const absl::Status s = communicator.Broadcast({1, 1, 0}, 1, data.data(), kCount);
    ASSERT_TRUE(s.ok()) << s;
    int64_t wrong = 0;
    AtMany(kCount, [&](int64_t at) { wrong += data[at] != Byte(1, at); });
    EXPECT_EQ(wrong, 0);
  });
}

TEST_P(LargeCountTest, ReducescatterWithPartsBeyondThePowerOfTwo) {
  RunRanks([](collective::BlockingCommunicator& communicator) {
    const std::vector<int64_t> counts = {kCount - 1000, 1000};
    std::vector<char> data = Operand(communicator.position(), kCount);
    const int64_t own = counts[communicator.position()], before = communicator.position() == 0 ? 0 : counts[0];
    std::vector<char> part(own);
    const absl::Status s = communicator.Reducescatter({1, 1, 0}, kType, data.data(), part.data(), counts);
    ASSERT_TRUE(s.ok()) << s;
    int64_t wrong = 0;
    AtMany(own, [&](int64_t at) { wrong += part[at] != Byte(0, before + at) + Byte(1, before + at); });
    EXPECT_EQ(wrong, 0);
  });
}

TEST_P(LargeCountTest, AlltoallWithALargeBlock) {
  RunRanks([](collective::BlockingCommunicator& communicator) {
    const int own = communicator.position();
    // By sender: to 0, to 1.
    const std::vector<int64_t> bytes = {100, kCount, 50, 10};
    const std::vector<char> data = Operand(own, bytes[own * 2] + bytes[own * 2 + 1]);
    std::vector<char> got(bytes[own] + bytes[2 + own]);
    const absl::Status s = communicator.Alltoall({1, 1, 0}, data.data(), got.data(),
                                                 {bytes[own * 2], bytes[own * 2 + 1]}, {bytes[own], bytes[2 + own]});
    ASSERT_TRUE(s.ok()) << s;
    int64_t wrong = 0;
    AtMany(bytes[own] + bytes[2 + own], [&](int64_t at) {
      const int from = at < bytes[own] ? 0 : 1;
      const int64_t start = own == 0 ? 0 : bytes[from * 2];
      wrong += got[at] != Byte(from, start + (from == 0 ? at : at - bytes[own]));
    });
    EXPECT_EQ(wrong, 0);
  });
}

INSTANTIATE_TEST_SUITE_P(On, LargeCountTest, testing::Values("shm", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace
}  // namespace farandole::worker::select
