// What a hierarchical communicator does when a member aborts, does not come, or is killed, and when a host has no
// memory to share.

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/run_testing.h"
#include "worker/hier/fake_hosts_testing.h"
#include "worker/select/communicator_factory.h"

namespace farandole::worker::select {
namespace {

using testing::HasSubstr;

collective::Instance At(uint64_t anchor) { return collective::Instance{1, anchor, 0}; }

// All communicators of a group, built in threads, then used by the test one by one.
struct World {
  explicit World(const std::vector<int>& hosts, uint32_t op_timeout_ms = 60000)
      : transports(hosts.size()), communicators(hosts.size()), statuses(hosts.size()) {
    std::vector<std::thread> builders;
    for (size_t position = 0; position < hosts.size(); ++position) {
      transports[position] = hier::MakeTestTransport("tcp");
      builders.emplace_back([this, hosts, position, op_timeout_ms] {
        collective::Group group = hier::KeyedGroupOnHosts(hosts, static_cast<int>(position));
        group.op_timeout_ms = op_timeout_ms;
        auto made = hier::HierarchicalCommunicator::Create(group, transports[position].get(), &bootstrap,
                                                           hier::SmallHierarchicalOptions());
        ASSERT_TRUE(made.ok()) << made.status();
        communicators[position] = *std::move(made);
      });
    }
    for (std::thread& builder : builders) builder.join();
  }

  // Starts an allreduce of a member in a thread of its own.
  void Start(int position, int64_t count) {
    threads.emplace_back([this, position, count] {
      std::vector<float> data(count, 1.0f);
      statuses[position] = communicators[position]->Allreduce(At(1), DataType::kFloat32, data.data(), count);
    });
  }
  void Join() {
    for (std::thread& thread : threads) thread.join();
    threads.clear();
  }

  collective::LocalBootstrap bootstrap;
  std::vector<std::unique_ptr<transport::Transport>> transports;
  std::vector<std::unique_ptr<hier::HierarchicalCommunicator>> communicators;
  std::vector<absl::Status> statuses;
  std::vector<std::thread> threads;
};

// Small: leaders go across; large: all do, if hosts are even.
class HierarchicalFailureTest : public testing::TestWithParam<int64_t> {};
INSTANTIATE_TEST_SUITE_P(Counts, HierarchicalFailureTest, testing::Values(10, 100000));

TEST_P(HierarchicalFailureTest, AnAbortOfAnyMemberEndsAll) {
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 0, 0, 1, 1}}) {
    const int ranks = static_cast<int>(hosts.size());
    for (int aborts = 0; aborts < ranks; ++aborts) {
      World world(hosts);
      for (int position = 0; position < ranks; ++position) {
        if (position != aborts) world.Start(position, GetParam());
      }
      world.communicators[aborts]->Abort("told so");
      world.communicators[aborts]->Abort("something else");
      // Whom nothing reaches is told by the control plane: here, all but the one that is looked at.
      const int other = (aborts + 1) % ranks;
      for (int position = 0; position < ranks; ++position) {
        if (position != other && position != aborts) world.communicators[position]->Abort("told so");
      }
      world.Join();
      EXPECT_EQ(world.statuses[other].code(), absl::StatusCode::kUnavailable) << world.statuses[other];
      EXPECT_EQ(world.communicators[other]->Barrier(At(2)), world.statuses[other]);
      EXPECT_EQ(world.communicators[aborts]->Barrier(At(2)), absl::AbortedError("told so"));
    }
  }
}

TEST_P(HierarchicalFailureTest, ALeaderThatAbortsEndsAllByNoticesAlone) {
  World world({0, 0, 1, 1, 2, 2});
  for (int position : {1, 2, 3, 4, 5}) world.Start(position, 10);
  world.communicators[0]->Abort("told so");
  world.Join();
  for (int position : {1, 2, 3, 4, 5}) {
    EXPECT_EQ(world.statuses[position].code(), absl::StatusCode::kUnavailable) << world.statuses[position];
  }
}

TEST_P(HierarchicalFailureTest, AMemberThatDoesNotComeRunsIntoTheBound) {
  World world({0, 0, 1, 1}, 300);
  for (int position : {0, 1, 2}) world.Start(position, GetParam());
  world.Join();
  for (int position : {0, 1, 2}) EXPECT_FALSE(world.statuses[position].ok());
  // That of its host knows it.
  EXPECT_EQ(world.communicators[2]->SuspectRank(), Rank(13)) << world.statuses[2];
  EXPECT_THAT(std::string(world.statuses[2].message()), HasSubstr("rank 13 (pid 1003 on host host1)"));
}

// One member as a process of its own: allreduces without end.
pid_t ForkMember(collective::LocalBootstrap* bootstrap, const std::vector<int>& hosts, int position, int64_t count,
                 int started_fd) {
  const pid_t child = fork();
  if (child != 0) return child;
  alarm(60);
  transport::tcp::TcpTransport transport;
  auto communicator = hier::HierarchicalCommunicator::Create(hier::KeyedGroupOnHosts(hosts, position), &transport,
                                                             bootstrap, hier::SmallHierarchicalOptions());
  if (!communicator.ok()) _exit(1);
  std::vector<float> data(count, 0.0f);
  for (uint64_t i = 0;; ++i) {
    if (!(*communicator)->Allreduce(At(i), DataType::kFloat32, data.data(), count).ok()) _exit(1);
    if (i == 3 && write(started_fd, "x", 1) != 1) _exit(1);
  }
}

// All members of the second host, as when it loses its power. The first host hears of it over its channels, and its
// members that have none from those that have.
TEST_P(HierarchicalFailureTest, AKilledHostEndsTheOtherWhichNamesAMemberOfIt) {
  const std::vector<int> hosts = {0, 0, 0, 1, 1, 1};
  collective::LocalBootstrap bootstrap;
  int started[2];
  ASSERT_EQ(pipe2(started, O_CLOEXEC), 0);
  std::vector<pid_t> victims;
  for (int position : {3, 4, 5}) {
    victims.push_back(ForkMember(&bootstrap, hosts, position, GetParam(), started[1]));
    ASSERT_GT(victims.back(), 0);
  }
  // They have the other one, and read is to see the end of it.
  close(started[1]);
  absl::Status statuses[3];
  Rank suspects[3];
  std::vector<std::thread> threads;
  for (int position : {0, 1, 2}) {
    threads.emplace_back([&, position] {
      transport::tcp::TcpTransport transport;
      auto communicator = hier::HierarchicalCommunicator::Create(hier::KeyedGroupOnHosts(hosts, position), &transport,
                                                                 &bootstrap, hier::SmallHierarchicalOptions());
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      std::vector<float> data(GetParam(), 0.0f);
      for (uint64_t i = 0; statuses[position].ok(); ++i) {
        statuses[position] = (*communicator)->Allreduce(At(i), DataType::kFloat32, data.data(), GetParam());
      }
      suspects[position] = (*communicator)->SuspectRank();
    });
  }
  char bytes[3];
  for (int got = 0; got < 3;) {
    const ssize_t n = read(started[0], bytes, 3);
    ASSERT_GT(n, 0);
    got += static_cast<int>(n);
  }
  const TimePoint killed = Clock::Monotonic().Now();
  for (pid_t victim : victims) kill(victim, SIGKILL);
  for (std::thread& thread : threads) thread.join();
  EXPECT_LT(Clock::Monotonic().Now().MsSince(killed), 5000);
  for (pid_t victim : victims) waitpid(victim, nullptr, 0);
  close(started[0]);
  for (int position : {0, 1, 2}) {
    EXPECT_EQ(statuses[position].code(), absl::StatusCode::kUnavailable) << statuses[position];
    EXPECT_GE(suspects[position].value(), 13) << statuses[position];
    EXPECT_THAT(std::string(statuses[position].message()), HasSubstr("because of rank 1"));
  }
}

// Answers like the agent of one host that has no memory for segments.
class WithoutSegment : public collective::Bootstrap {
 public:
  explicit WithoutSegment(collective::Bootstrap* other) : other_(other) {}
  absl::Status Put(const std::string& key, const std::string& value) override { return other_->Put(key, value); }
  absl::StatusOr<std::string> Get(const std::string& key, uint32_t timeout_ms) override {
    return other_->Get(key, timeout_ms);
  }
  absl::StatusOr<UniqueFd> Segment(const std::string&, uint64_t) override {
    return absl::ResourceExhaustedError("the host has no memory for it");
  }

 private:
  collective::Bootstrap* const other_;
};

TEST(HierarchicalSetupTest, AHostWithoutMemoryIsTheAnswerOfAll) {
  const std::vector<int> hosts = {0, 1, 1, 2, 2};
  collective::LocalBootstrap bootstrap;
  WithoutSegment without(&bootstrap);
  std::vector<std::thread> threads;
  for (int position = 0; position < 5; ++position) {
    threads.emplace_back([&, position] {
      transport::inproc::InprocTransport transport;
      collective::Bootstrap* mine = position == 3 ? static_cast<collective::Bootstrap*>(&without) : &bootstrap;
      const absl::Status s = hier::HierarchicalCommunicator::Create(hier::KeyedGroupOnHosts(hosts, position),
                                                                    &transport, mine, hier::SmallHierarchicalOptions())
                                 .status();
      EXPECT_EQ(s, absl::UnavailableError("shared memory of rank 13 (pid 1003 on host host2): the host has no memory "
                                          "for it"));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HierarchicalSetupTest, AHostWithoutMemoryMeansTcpForAll) {
  const std::vector<int> hosts = {0, 1, 1};
  collective::LocalBootstrap bootstrap;
  WithoutSegment without(&bootstrap);
  std::vector<std::thread> threads;
  for (int position = 0; position < 3; ++position) {
    threads.emplace_back([&, position] {
      CommunicatorFactory factory({});
      auto made = factory.Make(hier::KeyedGroupOnHosts(hosts, position),
                               position == 0 ? static_cast<collective::Bootstrap*>(&bootstrap) : &without);
      ASSERT_TRUE(made.ok()) << made.status();
      EXPECT_EQ((*made)->name().substr(0, 3), "tcp");
      EXPECT_TRUE(collective::RunToEnd(made->get(), At(1), collective::Barrier()).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HierarchicalSetupTest, AHostThatDoesNotComeIsNamed) {
  const std::vector<int> hosts = {0, 0, 1, 1};
  collective::LocalBootstrap bootstrap;
  std::vector<std::thread> threads;
  for (int position : {0, 1}) {
    threads.emplace_back([&, position] {
      transport::inproc::InprocTransport transport;
      collective::Group group = hier::KeyedGroupOnHosts(hosts, position);
      group.setup_timeout_ms = 200;
      const absl::Status s =
          hier::HierarchicalCommunicator::Create(group, &transport, &bootstrap, hier::SmallHierarchicalOptions())
              .status();
      EXPECT_FALSE(s.ok());
      EXPECT_NE(s.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(s.message()), HasSubstr(position == 0 ? "rank 12 (pid 1002 on host host1)" : ""));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace farandole::worker::select
