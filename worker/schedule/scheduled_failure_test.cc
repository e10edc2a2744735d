// What a scheduled communicator does when a member aborts or goes away.

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/schedule/scheduled_testing.h"

namespace farandole::worker::schedule {
namespace {

collective::Group KeyedGroup(int ranks, int rank) {
  collective::Group group = collective::TestGroup(ranks, rank);
  group.data_key = "key";
  // Ranks and positions are different things.
  for (Member& member : group.members) member.rank = Rank(member.rank.value() + 10);
  return group;
}

// All communicators of a group, built in threads, then used by the test one by one.
struct World {
  World(const std::string& transport, int ranks, uint32_t op_timeout_ms = 60000)
      : World(transport, std::vector<uint32_t>(ranks, op_timeout_ms), {}) {}
  // With a bound for each rank.
  World(const std::string& transport, const std::vector<uint32_t>& op_timeouts_ms, const ScheduledOptions& options)
      : transports(op_timeouts_ms.size()), communicators(op_timeouts_ms.size()) {
    const int ranks = static_cast<int>(op_timeouts_ms.size());
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      transports[rank] = MakeTransport(transport);
      threads.emplace_back([&, rank] {
        collective::Group group = KeyedGroup(ranks, rank);
        group.op_timeout_ms = op_timeouts_ms[rank];
        auto made = ScheduledCommunicator::Create(group, transports[rank].get(), &bootstrap, options);
        ASSERT_TRUE(made.ok()) << made.status();
        communicators[rank] = *std::move(made);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // Starts an allreduce of a rank in a thread of its own.
  void Start(int rank, int64_t count) {
    if (statuses.size() < communicators.size()) statuses.resize(communicators.size());
    threads.emplace_back([this, rank, count] {
      std::vector<float> data(count, 1.0f);
      statuses[rank] = communicators[rank]->Allreduce({1, 1, 0}, DataType::kFloat32, data.data(), count);
    });
  }
  void Join() {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  collective::LocalBootstrap bootstrap;
  std::vector<std::unique_ptr<transport::Transport>> transports;
  std::vector<std::unique_ptr<ScheduledCommunicator>> communicators;
  std::vector<absl::Status> statuses;
  std::vector<std::thread> threads;
};

class ScheduledFailureTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Transports, ScheduledFailureTest, testing::Values("inproc", "tcp"),
                         [](const auto& info) { return std::string(info.param); });

TEST_P(ScheduledFailureTest, AbortEndsAWaitAndAllLaterCalls) {
  World world(GetParam(), 3);
  world.statuses.resize(3);
  world.Start(0, 1000);
  world.communicators[0]->Abort("rank 1 was killed");
  world.communicators[0]->Abort("something else");
  world.Join();
  EXPECT_EQ(world.statuses[0], absl::AbortedError("rank 1 was killed"));
  EXPECT_EQ(world.communicators[0]->Barrier({1, 2, 0}), absl::AbortedError("rank 1 was killed"));
  EXPECT_FALSE(world.communicators[0]->SuspectRank().known());
}

TEST_P(ScheduledFailureTest, AbortInTheMiddleOfALargeOne) {
  for (int round = 0; round < 10; ++round) {
    World world(GetParam(), 2);
    world.statuses.resize(2);
    world.Start(0, 4 << 20);
    world.Start(1, 4 << 20);
    // At another point each time.
    const TimePoint until = Clock::Monotonic().Now().PlusMs(round * 2);
    while (Clock::Monotonic().Now() < until) std::this_thread::yield();
    world.communicators[1]->Abort("enough");
    world.Join();
    // It may have been over before.
    for (const absl::Status& status : world.statuses) {
      EXPECT_TRUE(status.ok() || absl::IsAborted(status) || absl::IsUnavailable(status)) << status;
    }
    EXPECT_EQ(world.communicators[1]->Barrier({1, 2, 0}), absl::AbortedError("enough"));
  }
}

TEST_P(ScheduledFailureTest, AnAbortOfAnotherIsNotBlamedOnIt) {
  World world(GetParam(), 2);
  world.statuses.resize(2);
  world.Start(0, 1000);
  world.communicators[1]->Abort("told so");
  world.Join();
  EXPECT_EQ(world.statuses[0].code(), absl::StatusCode::kUnavailable) << world.statuses[0];
}

TEST_P(ScheduledFailureTest, AMemberThatLeavesTooEarlyIsNamed) {
  World world(GetParam(), 3);
  world.statuses.resize(3);
  world.Start(0, 1000);
  world.Start(1, 1000);
  world.communicators[2].reset();
  world.Join();
  for (int rank : {0, 1}) {
    EXPECT_EQ(world.statuses[rank].code(), absl::StatusCode::kUnavailable) << world.statuses[rank];
    EXPECT_EQ(world.communicators[rank]->SuspectRank(), Rank(12)) << world.statuses[rank];
    EXPECT_NE(world.statuses[rank].message().find("rank 12 (pid 1002 on host here)"), std::string::npos)
        << world.statuses[rank];
    // Broken for good.
    EXPECT_EQ(world.communicators[rank]->Barrier({1, 2, 0}).code(), absl::StatusCode::kUnavailable);
  }
}

TEST_P(ScheduledFailureTest, AMemberThatDoesNotComeRunsIntoTheBound) {
  World world(GetParam(), 3, 200);
  world.statuses.resize(3);
  world.Start(0, 1000);
  world.Start(1, 1000);
  world.Join();
  for (int rank : {0, 1}) EXPECT_FALSE(world.statuses[rank].ok());
  EXPECT_TRUE(absl::IsDeadlineExceeded(world.statuses[0]) || absl::IsDeadlineExceeded(world.statuses[1]));
}

// In a ring each waits for its neighbour alone, and only two are neighbours of the one that does not come.
TEST_P(ScheduledFailureTest, WhoWaitsInVainItselfIsNotBlamed) {
  ScheduledOptions options;
  options.table = *ScheduleTable::Parse("allreduce 0 any 1 any ring", "test");
  World world(GetParam(), {200, 200, 60000, 60000}, options);
  world.statuses.resize(4);
  const TimePoint begin = Clock::Monotonic().Now();
  for (int rank : {0, 1, 2}) world.Start(rank, 1000);
  world.Join();
  // Also the one whose own bound is far away.
  EXPECT_LT(Clock::Monotonic().Now().MsSince(begin), 30000);
  for (int rank : {0, 1, 2}) {
    EXPECT_FALSE(world.statuses[rank].ok());
    const Rank suspect = world.communicators[rank]->SuspectRank();
    EXPECT_TRUE(!suspect.known() || suspect == Rank(13)) << rank << ": " << world.statuses[rank];
  }
  EXPECT_EQ(world.communicators[0]->SuspectRank(), Rank(13)) << world.statuses[0];
  EXPECT_NE(world.statuses[0].message().find("rank 13 (pid 1003 on host here)"), std::string::npos)
      << world.statuses[0];
}

TEST_P(ScheduledFailureTest, AMissingMemberIsNamedWhenTheCommunicatorIsBuilt) {
  collective::LocalBootstrap bootstrap;
  std::unique_ptr<transport::Transport> transport = MakeTransport(GetParam());
  collective::Group group = KeyedGroup(2, 1);
  group.setup_timeout_ms = 100;
  const absl::Status status = ScheduledCommunicator::Create(group, transport.get(), &bootstrap).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded) << status;
  EXPECT_NE(status.message().find("rank 10 (pid 1000 on host here)"), std::string::npos) << status;
  group.position = 0;
  const absl::Status other = ScheduledCommunicator::Create(group, transport.get(), &bootstrap).status();
  EXPECT_NE(other.message().find("rank 11 (pid 1001 on host here)"), std::string::npos) << other;
}

TEST_P(ScheduledFailureTest, WrongKeyAndWrongGenerationDoNotConnect) {
  for (const bool wrong_key : {true, false}) {
    collective::LocalBootstrap bootstrap;
    std::unique_ptr<transport::Transport> transports[2] = {MakeTransport(GetParam()), MakeTransport(GetParam())};
    absl::Status statuses[2];
    std::vector<std::thread> threads;
    for (int rank : {0, 1}) {
      threads.emplace_back([&, rank] {
        collective::Group group = KeyedGroup(2, rank);
        group.setup_timeout_ms = 300;
        if (rank == 1 && wrong_key) group.data_key = "another";
        if (rank == 1 && !wrong_key) group.generation.number = 2;
        statuses[rank] = ScheduledCommunicator::Create(group, transports[rank].get(), &bootstrap).status();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(statuses[0].code(), absl::StatusCode::kDeadlineExceeded) << statuses[0];
    EXPECT_EQ(statuses[1].code(),
              wrong_key ? absl::StatusCode::kUnauthenticated : absl::StatusCode::kFailedPrecondition)
        << statuses[1];
  }
}

}  // namespace
}  // namespace farandole::worker::schedule
