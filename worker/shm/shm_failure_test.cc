#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/shm/shm_communicator.h"

// What goes wrong with a ShmCommunicator: aborts, deadlines, dead processes, disagreement, no memory.
namespace farandole::worker::shm {
namespace {

using testing::HasSubstr;

ShmOptions Options(double cpus) {
  ShmOptions options;
  options.buffer_bytes = 1 << 20;
  options.chunk_bytes = 64 << 10;
  options.cpus = cpus;
  return options;
}

collective::Instance At(uint64_t anchor) { return collective::Instance{1, anchor, 0}; }

int64_t NowMs() { return Clock::Monotonic().Now().ns() / 1000000; }

class ShmFailureTest : public testing::TestWithParam<double> {
 protected:
  // Communicators of all ranks, made by one thread each.
  std::vector<std::unique_ptr<ShmCommunicator>> Make(int ranks, uint32_t op_timeout_ms = 60000) {
    return Make(ranks, &bootstrap_, op_timeout_ms);
  }
  std::vector<std::unique_ptr<ShmCommunicator>> Make(int ranks, collective::Bootstrap* bootstrap,
                                                     uint32_t op_timeout_ms = 60000) {
    std::vector<std::unique_ptr<ShmCommunicator>> made(ranks);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks; ++rank) {
      threads.emplace_back([&, rank] {
        collective::Group group = collective::TestGroup(ranks, rank);
        group.op_timeout_ms = op_timeout_ms;
        auto communicator = ShmCommunicator::Create(group, bootstrap, Options(GetParam()));
        ASSERT_TRUE(communicator.ok()) << communicator.status();
        made[rank] = *std::move(communicator);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return made;
  }

  collective::LocalBootstrap bootstrap_;
};

TEST_P(ShmFailureTest, AbortEndsAWaitingCallAndAllLaterOnes) {
  auto ranks = Make(3);
  absl::Status ended;
  std::thread waiting([&] { ended = ranks[1]->Barrier(At(1)); });
  // Whether the call has begun, spins or is parked by now must not matter.
  ranks[1]->Abort("rank 2 (pid 7 on host b) was killed by signal 9");
  ranks[1]->Abort("another reason");
  const int64_t start = NowMs();
  waiting.join();
  EXPECT_LT(NowMs() - start, 5000);
  EXPECT_EQ(ended, absl::AbortedError("rank 2 (pid 7 on host b) was killed by signal 9"));
  float value = 0;
  EXPECT_EQ(ranks[1]->Allreduce(At(2), DataType::kFloat32, &value, 1), ended);
  EXPECT_EQ(ranks[1]->Broadcast(At(3), 0, &value, 4), ended);
  EXPECT_EQ(ranks[1]->Allgather(At(4), &value, &value, {4, 0, 0}), ended);
}

TEST_P(ShmFailureTest, AbortWakesAParkedCall) {
  auto ranks = Make(2);
  absl::Status ended;
  std::thread waiting([&] { ended = ranks[0]->Barrier(At(1)); });
  // Long past every spinning.
  const int64_t start = NowMs();
  while (NowMs() < start + 30) std::this_thread::yield();
  ranks[0]->Abort("stop");
  waiting.join();
  EXPECT_EQ(ended, absl::AbortedError("stop"));
}

TEST_P(ShmFailureTest, OneThatGivesUpEndsTheOthersAndSaysWhomItBlames) {
  const std::pair<Rank, std::string> cases[] = {
      {Rank(), ""}, {Rank(1), ", because of rank 1 (pid 1001 on host here)"}, {Rank(77), ", because of rank 77"}};
  for (const auto& [blamed, because] : cases) {
    collective::LocalBootstrap bootstrap;
    auto ranks = Make(3, &bootstrap);
    absl::Status ended[2];
    std::vector<std::thread> threads;
    for (int rank : {0, 1}) threads.emplace_back([&, rank] { ended[rank] = ranks[rank]->Barrier(At(1)); });
    // Whether the calls have begun, spin or are parked by now must not matter.
    ranks[2]->GiveUp("the network is down", blamed);
    for (std::thread& thread : threads) thread.join();
    for (int rank : {0, 1}) {
      EXPECT_EQ(ended[rank].code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(ended[rank].message()),
                  HasSubstr("rank 2 (pid 1002 on host here) has given up" + because));
      EXPECT_EQ(ranks[rank]->SuspectRank(), blamed);
      EXPECT_EQ(ranks[rank]->Barrier(At(2)), ended[rank]);
    }
    EXPECT_EQ(ranks[2]->Barrier(At(1)), absl::AbortedError("the network is down"));
  }
}

TEST_P(ShmFailureTest, WhatAllHaveEnteredIsNotEndedByOneThatGivesUpThen) {
  auto ranks = Make(2);
  for (uint64_t anchor = 1; anchor <= 300; ++anchor) {
    absl::Status ended;
    std::thread other([&] { ended = ranks[0]->Barrier(At(anchor)); });
    ASSERT_TRUE(ranks[1]->Barrier(At(anchor)).ok());
    if (anchor == 300) ranks[1]->Abort("over");
    other.join();
    ASSERT_TRUE(ended.ok()) << ended;
  }
}

TEST_P(ShmFailureTest, DeadlineNamesWhoDidNotArrive) {
  auto ranks = Make(3, 50);
  absl::Status first, second;
  std::thread other([&] { first = ranks[0]->Barrier(At(1)); });
  second = ranks[1]->Barrier(At(1));
  other.join();
  for (const absl::Status& s : {first, second}) {
    EXPECT_EQ(s.code(), absl::StatusCode::kDeadlineExceeded);
    EXPECT_THAT(std::string(s.message()), HasSubstr("rank 2 (pid 1002 on host here)"));
  }
  EXPECT_EQ(ranks[0]->SuspectRank(), Rank(2));
  EXPECT_EQ(ranks[0]->Barrier(At(2)), first);
}

TEST_P(ShmFailureTest, RanksAtDifferentCallsGetAnErrorNotGarbage) {
  struct Call {
    const char* what;
    std::function<absl::Status(ShmCommunicator&, float*)> zero, one;
  };
  const auto sum = [](uint64_t anchor, int64_t count, DataType dtype = DataType::kFloat32) {
    return [=](ShmCommunicator& c, float* data) { return c.Allreduce(At(anchor), dtype, data, count); };
  };
  const auto broadcast = [](int root) {
    return [=](ShmCommunicator& c, float* data) { return c.Broadcast(At(1), root, data, 4000); };
  };
  const Call calls[] = {{"size", sum(1, 4), sum(1, 2000)},
                        {"large size", sum(1, 2000), sum(1, 2001)},
                        {"type", sum(1, 4), sum(1, 4, DataType::kInt32)},
                        {"operation", sum(1, 1000), broadcast(0)},
                        {"root", broadcast(0), broadcast(1)}};
  for (const Call& call : calls) {
    SCOPED_TRACE(call.what);
    collective::LocalBootstrap bootstrap;
    absl::Status ended[2];
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 2; ++rank) {
      threads.emplace_back([&, rank] {
        auto communicator = ShmCommunicator::Create(collective::TestGroup(2, rank), &bootstrap, Options(GetParam()));
        std::vector<float> data(4000);
        ended[rank] = (rank == 0 ? call.zero : call.one)(**communicator, data.data());
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (int rank = 0; rank < 2; ++rank) {
      EXPECT_EQ(ended[rank].code(), absl::StatusCode::kInternal) << ended[rank];
      EXPECT_THAT(std::string(ended[rank].message()),
                  HasSubstr(Describe(collective::TestGroup(2, 0).members[1 - rank])));
    }
  }
}

// A child that works with this process for a while and is killed inside a collective.
TEST_P(ShmFailureTest, AKilledProcessLeavesTheOthersToAbort) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    auto communicator = ShmCommunicator::Create(collective::TestGroup(2, 1), &bootstrap_, Options(GetParam()));
    std::vector<float> data(100000);
    for (uint64_t anchor = 1; communicator.ok(); ++anchor) {
      if (!(*communicator)->Allreduce(At(anchor), DataType::kFloat32, data.data(), data.size()).ok()) _exit(3);
      if (anchor == 20) kill(getpid(), SIGKILL);
    }
    _exit(4);
  }
  auto communicator = ShmCommunicator::Create(collective::TestGroup(2, 0), &bootstrap_, Options(GetParam()));
  ASSERT_TRUE(communicator.ok()) << communicator.status();
  std::thread watch([&] {
    int state = 0;
    EXPECT_EQ(waitpid(child, &state, 0), child);
    EXPECT_TRUE(WIFSIGNALED(state));
    (*communicator)->Abort("rank 1 was killed");
  });
  std::vector<float> data(100000);
  uint64_t anchor = 0;
  absl::Status ended;
  while (ended.ok() && anchor < 1000) {
    ended = (*communicator)->Allreduce(At(++anchor), DataType::kFloat32, data.data(), data.size());
  }
  watch.join();
  EXPECT_EQ(ended, absl::AbortedError("rank 1 was killed"));
  EXPECT_GE(anchor, 20u);
}

TEST_P(ShmFailureTest, ForkedProcessesGetEveryCell) {
  constexpr int kRanks = 4;
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child != 0) {
      children.push_back(child);
      continue;
    }
    auto communicator = ShmCommunicator::Create(collective::TestGroup(kRanks, rank), &bootstrap_, Options(GetParam()));
    if (!communicator.ok()) _exit(2);
    for (int round = 1; round <= 50; ++round) {
      const int64_t count = 1 << (round % 18);
      std::vector<char> own(count * 4);
      char* data = round % 2 == 0 ? own.data() : static_cast<char*>((*communicator)->Buffer(count * 4));
      collective::FillOperand(DataType::kFloat32, data, count, rank, round);
      if (!(*communicator)->Allreduce(At(round), DataType::kFloat32, data, count).ok()) _exit(3);
      if (collective::WrongCell(DataType::kFloat32, data, count, kRanks, round) != -1) _exit(4);
    }
    _exit(0);
  }
  for (pid_t child : children) {
    int state = 0;
    ASSERT_EQ(waitpid(child, &state, 0), child);
    EXPECT_TRUE(WIFEXITED(state));
    EXPECT_EQ(WEXITSTATUS(state), 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Cpus, ShmFailureTest, testing::Values(1.0, 64.0),
                         [](const auto& info) { return info.param == 1 ? "Crowded" : "Spinning"; });

// Answers like a host whose agent has no memory for the segment of one rank.
class WithoutSegment : public collective::Bootstrap {
 public:
  explicit WithoutSegment(collective::Bootstrap* other) : other_(other) {}
  absl::Status Put(const std::string& key, const std::string& value) override { return other_->Put(key, value); }
  absl::StatusOr<std::string> Get(const std::string& key, uint32_t timeout_ms) override {
    return other_->Get(key, timeout_ms);
  }
  absl::StatusOr<UniqueFd> Segment(const std::string& key, uint64_t size_bytes) override {
    return absl::ResourceExhaustedError("the host has no memory for it");
  }

 private:
  collective::Bootstrap* const other_;
};

TEST(ShmSetupTest, OneRankWithoutMemoryIsTheAnswerOfAll) {
  collective::LocalBootstrap bootstrap;
  WithoutSegment without(&bootstrap);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      collective::Bootstrap* mine = rank == 1 ? static_cast<collective::Bootstrap*>(&without) : &bootstrap;
      const absl::Status s = ShmCommunicator::Create(collective::TestGroup(3, rank), mine, Options(2)).status();
      EXPECT_EQ(s.code(), absl::StatusCode::kUnavailable);
      EXPECT_THAT(std::string(s.message()), HasSubstr("rank 1 (pid 1001 on host here): the host has no memory for it"));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ShmSetupTest, DifferentSizesAreRefusedByAll) {
  collective::LocalBootstrap bootstrap;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      ShmOptions options = Options(2);
      options.chunk_bytes <<= rank;
      EXPECT_EQ(ShmCommunicator::Create(collective::TestGroup(2, rank), &bootstrap, options).status().code(),
                absl::StatusCode::kUnavailable);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(ShmSetupTest, AMemberThatNeverComesIsADeadlineNotAFallback) {
  collective::LocalBootstrap bootstrap;
  collective::Group group = collective::TestGroup(2, 0);
  group.setup_timeout_ms = 20;
  EXPECT_EQ(ShmCommunicator::Create(group, &bootstrap, Options(2)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
}

TEST(ShmSetupTest, TooManyRanks) {
  collective::LocalBootstrap bootstrap;
  EXPECT_EQ(ShmCommunicator::Create(collective::TestGroup(65, 0), &bootstrap, Options(2)).status().code(),
            absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace farandole::worker::shm
