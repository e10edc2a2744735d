// farandole-agent with real processes, beside a controller that the test plays.
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "agent/core/agent_program.h"
#include "agent/link/fake_controller.h"
#include "base/clock.h"
#include "base/unique_fd.h"

namespace farandole::agent::core {
namespace {

const char kToken[] = "secret";

int Times(const std::string& text, const std::string& part) {
  int times = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++times;
  return times;
}

template <typename T>
bool Is(const AgentUp& message) {
  return std::holds_alternative<T>(message);
}
// Of a worker that had attached.
bool EndsAWorker(const AgentUp& message) {
  const auto* ended = std::get_if<WorkerEnded>(&message);
  return ended != nullptr && ended->worker_incarnation != Incarnation();
}
template <typename T>
const T* FromWorkerAs(const AgentUp& message) {
  const auto* from = std::get_if<FromWorker>(&message);
  return from == nullptr ? nullptr : std::get_if<T>(&from->message);
}
template <typename T>
bool Says(const AgentUp& message) {
  return FromWorkerAs<T>(message) != nullptr;
}

class ProgramTest : public testing::Test {
 protected:
  ProgramTest() : controller_(kToken) { controller_.Start(); }

  AgentProgram::Options Options(std::vector<std::string> command, int size = 1) {
    AgentProgram::Options options;
    options.controller = controller_.address();
    options.token = kToken;
    options.size = size;
    options.command = std::move(command);
    return options;
  }
  bool WaitForAny(bool (*matches)(const AgentUp&)) {
    return controller_.WaitUntil([&](const std::vector<AgentUp>& messages) {
      for (const AgentUp& message : messages) {
        if (matches(message)) return true;
      }
      return false;
    });
  }
  // Only after a matching one has come.
  template <typename T>
  T First() {
    T found{};
    EXPECT_TRUE(controller_.WaitUntil([&](const std::vector<AgentUp>& messages) {
      for (const AgentUp& message : messages) {
        if (const T* one = std::get_if<T>(&message)) {
          found = *one;
          return true;
        }
      }
      return false;
    }));
    return found;
  }

  // Waits for it.
  Hello HelloOf(Rank rank) {
    Hello found;
    EXPECT_TRUE(controller_.WaitUntil([&](const std::vector<AgentUp>& messages) {
      for (const AgentUp& message : messages) {
        const Hello* hello = FromWorkerAs<Hello>(message);
        if (hello != nullptr && hello->rank == rank) found = *hello;
      }
      return found.pid != 0;
    }));
    return found;
  }

  link::FakeController controller_;
};

TEST_F(ProgramTest, AWorkerThatAttachesWorksAndLeavesIsNoFailure) {
  AgentProgram agent(Options(FakeWorkerCommand({"attach", "expect", "attached", "expect", "link-up", "hello", "expect",
                                                "welcome", "leave", "expect", "leave-done", "disconnect"})));
  EXPECT_EQ(agent.Wait(), 0) << agent.out() << agent.err();
  EXPECT_EQ(agent.out(), "attached\nlink-up\nwelcome\nleave-done\n");
  EXPECT_EQ(agent.err(), "");
  EXPECT_EQ(First<AgentHello>().host, "here");
  EXPECT_EQ(controller_.Count(EndsAWorker), 0);
  EXPECT_EQ(controller_.Count(Says<Hello>), 1);
  EXPECT_EQ(controller_.Count(Says<Leave>), 1);
}

TEST_F(ProgramTest, ARankWhoseProcessEndsWithoutAttachingIsReported) {
  AgentProgram agent(Options(FakeWorkersByRank({"attach expect link-up hello expect removed exit 1", "exit 0"}), 2));
  const Hello waiting = HelloOf(Rank(0));
  const WorkerEnded ended = First<WorkerEnded>();
  EXPECT_EQ(ended.worker_incarnation, Incarnation());
  EXPECT_EQ(ended.rank, Rank(1));
  EXPECT_EQ(ended.cause, "exited with code 0");
  EXPECT_NE(ended.pid, waiting.pid);
  const Removed removed{GenerationId(), RemovedKind::kPeerLost, "rank 1 exited"};
  controller_.Send(AgentDown(ToWorkers{{waiting.worker_incarnation}, WorkerDown(removed)}));
  EXPECT_EQ(agent.Wait(), 1) << agent.out() << agent.err();
  EXPECT_NE(agent.err().find("the job has failed: rank 1 exited"), std::string::npos) << agent.err();
}

TEST_F(ProgramTest, AKilledWorkerIsReportedAndNamedOnce) {
  AgentProgram agent(Options(
      FakeWorkersByRank({"attach expect link-up hello expect removed exit 1", "attach expect link-up hello serve"}),
      2));
  const Hello survivor = HelloOf(Rank(0)), victim = HelloOf(Rank(1));
  ASSERT_EQ(kill(static_cast<pid_t>(victim.pid), SIGKILL), 0);
  const WorkerEnded ended = First<WorkerEnded>();
  EXPECT_EQ(ended.pid, victim.pid);
  EXPECT_EQ(ended.worker_incarnation, victim.worker_incarnation);
  EXPECT_EQ(ended.cause, "was killed by signal 9 (SIGKILL)");
  const Removed removed{GenerationId{1, 1}, RemovedKind::kPeerLost, "rank 1 is dead"};
  controller_.Send(AgentDown(ToWorkers{{survivor.worker_incarnation}, WorkerDown(removed)}));
  EXPECT_EQ(agent.Wait(), 137) << agent.out() << agent.err();
  EXPECT_NE(agent.out().find("removed rank 1 is dead"), std::string::npos) << agent.out();
  EXPECT_EQ(Times(agent.err(), "\n"), 1) << agent.err();
  EXPECT_NE(agent.err().find("rank 1 (pid " + std::to_string(victim.pid) +
                             " on host here) failed first: it was killed by signal 9 (SIGKILL)"),
            std::string::npos)
      << agent.err();
}

TEST_F(ProgramTest, AFailureElsewhereIsNotBlamedOnThisHost) {
  AgentProgram::Options options =
      Options(FakeWorkerCommand({"attach", "expect", "link-up", "hello", "expect", "removed", "exit", "9"}), 2);
  options.more = {"--local-size", "1"};
  AgentProgram agent(options);
  const Hello told = HelloOf(Rank(0));
  const Removed removed{GenerationId{1, 1}, RemovedKind::kPeerLost, "rank 1 (pid 7 on host there) was killed"};
  controller_.Send(AgentDown(ToWorkers{{told.worker_incarnation}, WorkerDown(removed)}));
  EXPECT_EQ(agent.Wait(), 1);
  EXPECT_NE(agent.err().find("the job has failed: rank 1 (pid 7 on host there) was killed"), std::string::npos)
      << agent.err();
}

TEST_F(ProgramTest, AKilledAgentTakesItsWorkersAlong) {
  AgentProgram agent(Options(FakeWorkerCommand({"attach", "expect", "link-up", "hello", "pause"})));
  const Hello worker = HelloOf(Rank(0));
  kill(agent.pid(), SIGKILL);
  EXPECT_TRUE(WaitUntilGone(static_cast<pid_t>(worker.pid)));
}

TEST_F(ProgramTest, EndingWithoutLeavingIsAFailure) {
  AgentProgram agent(
      Options(FakeWorkerCommand({"attach", "expect", "link-up", "hello", "expect", "welcome", "exit", "0"})));
  EXPECT_EQ(agent.Wait(), 1) << agent.out() << agent.err();
  EXPECT_NE(agent.err().find("it exited with code 0 without leaving the job"), std::string::npos) << agent.err();
  EXPECT_EQ(First<WorkerEnded>().cause, "exited with code 0");
}

TEST_F(ProgramTest, WorkersShareOneSealedSegment) {
  AgentProgram agent(Options(
      FakeWorkersByRank({"attach segment k 65536 poke 77 peek 78", "attach segment k 65536 peek 77 poke 78"}), 2));
  EXPECT_EQ(agent.Wait(), 0) << agent.out() << agent.err();
  EXPECT_EQ(Times(agent.out(), "seen\n"), 2);
  EXPECT_EQ(Times(agent.out(), "sealed\n"), 2);
  EXPECT_EQ(Times(agent.out(), "not sealed\n"), 0);
}

TEST_F(ProgramTest, KeysAreRelayed) {
  AgentProgram agent(Options(FakeWorkersByRank({"attach expect link-up put k v expect key get none get k expect key",
                                                "attach expect link-up get k expect key"}),
                             2));
  EXPECT_EQ(agent.Wait(), 0) << agent.out() << agent.err();
  EXPECT_EQ(Times(agent.out(), "key 0 v\n"), 2) << agent.out();
}

TEST_F(ProgramTest, WhatAWorkerReportsTravelsWithTheLease) {
  AgentProgram agent(Options(
      FakeWorkerCommand({"attach", "expect", "link-up", "hello", "expect", "welcome", "report", "x", "pause"})));
  const Hello hello = HelloOf(Rank(0));
  const auto reported = [&](const std::vector<AgentUp>& messages) {
    for (const AgentUp& message : messages) {
      const auto* lease = std::get_if<Lease>(&message);
      if (lease == nullptr || lease->reports.empty()) continue;
      return lease->reports[0].oldest_open == "x" && lease->reports[0].worker_incarnation == hello.worker_incarnation;
    }
    return false;
  };
  EXPECT_TRUE(controller_.WaitUntil(reported));
  kill(agent.pid(), SIGTERM);
  agent.Wait();
}

TEST_F(ProgramTest, OutputCarriesTheRankAndTheLastLineIsKept) {
  AgentProgram::Options options = Options({"sh", "-c", "echo out; printf '10%%\\r20%%\\rrest'; printf err >&2"}, 2);
  options.more = {"--prefix-output"};
  AgentProgram agent(options);
  EXPECT_EQ(agent.Wait(), 0);
  for (const std::string rank : {"0", "1"}) {
    const std::string p = "[" + rank + "] ";
    EXPECT_NE(agent.out().find(p + "out\n"), std::string::npos) << agent.out();
    EXPECT_NE(agent.out().find(p + "10%\r" + p + "20%\r"), std::string::npos) << agent.out();
    EXPECT_NE(agent.out().find(p + "rest\n"), std::string::npos) << agent.out();
    EXPECT_NE(agent.err().find(p + "err\n"), std::string::npos) << agent.err();
  }
}

TEST_F(ProgramTest, WorkersKnowTheirPlaceAndNoSecret) {
  AgentProgram::Options options =
      Options({"sh", "-c", "env; for fd in 10 11; do [ -e /proc/$$/fd/$fd ] || echo closed; done"}, 4);
  options.more = {"--first-rank", "2", "--local-size", "1", "--socket", "farandole-test-" + std::to_string(getpid())};
  AgentProgram agent(options);
  EXPECT_EQ(agent.Wait(), 0);
  for (const char* expected :
       {"FARANDOLE_RANK=2\n", "FARANDOLE_SIZE=4\n", "FARANDOLE_LOCAL_RANK=0\n", "FARANDOLE_LOCAL_SIZE=1\n",
        "FARANDOLE_CROSS_RANK=2\n", "FARANDOLE_CROSS_SIZE=4\n", "HOROVOD_RANK=2\n", "HOROVOD_SIZE=4\n",
        "HOROVOD_LOCAL_RANK=0\n", "HOROVOD_LOCAL_SIZE=1\n", "HOROVOD_CROSS_RANK=2\n", "HOROVOD_CROSS_SIZE=4\n",
        "HOROVOD_HOSTNAME=here\n", "FARANDOLE_JOB=test\n", "PYTHONUNBUFFERED=1\n"}) {
    EXPECT_NE(agent.out().find(expected), std::string::npos) << expected << agent.out();
  }
  EXPECT_NE(agent.out().find("FARANDOLE_AGENT_SOCKET=farandole-test-"), std::string::npos);
  EXPECT_EQ(agent.out().find(kToken), std::string::npos);
  // Token and lifeline.
  EXPECT_EQ(Times(agent.out(), "closed\n"), 2) << agent.out();
}

TEST_F(ProgramTest, WhoIgnoresTermIsKilledAndTheFirstFailureCounts) {
  AgentProgram::Options options = Options(
      FakeWorkersByRank({"attach segment k 4096 ignore 15 spawn poke 1 pause", "attach segment k 4096 peek 1 exit 3"}),
      2);
  options.more = {"--grace-seconds", "0"};
  AgentProgram agent(options);
  EXPECT_EQ(agent.Wait(), 3) << agent.err();
  EXPECT_EQ(Times(agent.err(), "failed first: it exited with code 3"), 1) << agent.err();
  ASSERT_NE(agent.out().find("spawned "), std::string::npos);
  EXPECT_TRUE(WaitUntilGone(std::stoi(agent.out().substr(agent.out().find("spawned ") + 8))));
}

TEST_F(ProgramTest, WhatAWorkerLeavesBehindEndsWithIt) {
  AgentProgram agent(Options(FakeWorkersByRank({"spawn exit 0", "ignore 15 pause"}), 2));
  ASSERT_TRUE(agent.WaitFor("spawned "));
  ASSERT_TRUE(agent.WaitFor("\n"));
  EXPECT_TRUE(WaitUntilGone(std::stoi(agent.out().substr(8))));
  agent.CloseLifeline();
  EXPECT_EQ(agent.Wait(), 1);
}

TEST_F(ProgramTest, WithoutALifelineNothingStays) {
  AgentProgram agent(Options(FakeWorkerCommand({"ignore", "15", "spawn", "say", "ready\n", "pause"}), 1));
  ASSERT_TRUE(agent.WaitFor("ready"));
  const pid_t spawned = std::stoi(agent.out().substr(8));
  agent.CloseLifeline();
  EXPECT_EQ(agent.Wait(), 1);
  EXPECT_NE(agent.err().find("the launcher has ended or let go of this host"), std::string::npos) << agent.err();
  EXPECT_TRUE(WaitUntilGone(spawned));
}

TEST_F(ProgramTest, SignalsArePassedOn) {
  AgentProgram agent(Options(
      {"sh", "-c", "trap 'echo usr1' USR1; trap 'echo term; exit 5' TERM; echo ready; while :; do sleep 0.02; done"}));
  ASSERT_TRUE(agent.WaitFor("ready"));
  kill(agent.pid(), SIGUSR1);
  ASSERT_TRUE(agent.WaitFor("usr1"));
  kill(agent.pid(), SIGTERM);
  EXPECT_EQ(agent.Wait(), 5) << agent.err();
  EXPECT_NE(agent.out().find("term"), std::string::npos);
}

TEST_F(ProgramTest, WithoutACommandItServesUntilTold) {
  AgentProgram::Options options = Options({});
  const std::string socket = "farandole-test-join-" + std::to_string(getpid());
  options.more = {"--socket", socket, "--ready-fd", "1"};
  AgentProgram agent(options);
  ASSERT_TRUE(agent.WaitFor(socket + "\n"));
  AgentProgram::Options joiner;
  // A worker that the agent did not start, killed: nobody but its pidfd tells.
  joiner.wrapper = {"env",
                    "FARANDOLE_AGENT_SOCKET=" + socket,
                    "agent/core/fake_worker",
                    "attach",
                    "expect",
                    "link-up",
                    "hello",
                    "expect",
                    "welcome",
                    "die",
                    "9"};
  AgentProgram worker(joiner);
  // It can be read as long as nobody has waited for it.
  EXPECT_EQ(First<WorkerEnded>().cause, "was killed by signal 9 (SIGKILL)");
  EXPECT_EQ(worker.Wait(), 137) << worker.out();
  kill(agent.pid(), SIGTERM);
  EXPECT_EQ(agent.Wait(), 0);
}

TEST_F(ProgramTest, AProcessThatBeginsAnewEndsItsOldWorker) {
  AgentProgram agent(Options(
      FakeWorkerCommand({"attach-as", "1", "expect", "link-up", "hello", "expect", "welcome", "disconnect", "attach-as",
                         "2", "expect", "link-up", "hello", "expect", "welcome", "leave", "expect", "leave-done"})));
  EXPECT_EQ(agent.Wait(), 0) << agent.out() << agent.err();
  const WorkerEnded ended = First<WorkerEnded>();
  EXPECT_EQ(ended.worker_incarnation, Incarnation(1));
  EXPECT_EQ(ended.cause, "was initialised anew in the same process");
  EXPECT_TRUE(ended.lives);
  EXPECT_EQ(controller_.Count(EndsAWorker), 1);
}

TEST_F(ProgramTest, ABrokenConnectionMayComeBack) {
  AgentProgram agent(
      Options(FakeWorkerCommand({"attach", "expect", "link-up", "hello", "expect", "welcome", "disconnect", "attach",
                                 "expect", "link-up", "hello", "expect", "welcome", "leave", "expect", "leave-done"})));
  EXPECT_EQ(agent.Wait(), 0) << agent.out() << agent.err();
  EXPECT_EQ(controller_.Count(EndsAWorker), 0);
}

TEST_F(ProgramTest, WhoLiesIsRefused) {
  AgentProgram forged(Options(
      FakeWorkerCommand({"attach", "expect", "link-up", "hello-pid", "1", "expect", "refused", "expect-closed"})));
  EXPECT_EQ(forged.Wait(), 0) << forged.out();
  EXPECT_NE(forged.out().find("Hello names pid 1"), std::string::npos) << forged.out();
  EXPECT_EQ(controller_.Count(Says<Hello>), 0);
  AgentProgram early(Options(FakeWorkerCommand({"connect", "hello", "expect", "refused", "expect-closed"})));
  EXPECT_EQ(early.Wait(), 0) << early.out();
  // Two processes, one incarnation.
  AgentProgram twins(Options(FakeWorkersByRank({"attach-as 5 segment k 4096 poke 1 peek 2",
                                                "attach segment k 4096 peek 1 attach-as 5 expect refused poke 2"}),
                             2));
  EXPECT_EQ(twins.Wait(), 0) << twins.out() << twins.err();
}

TEST_F(ProgramTest, AStoppedWorkerIsUnresponsiveNotDead) {
  AgentProgram agent(Options(FakeWorkerCommand({"attach", "serve"})));
  const Hello hello = HelloOf(Rank(0));
  const pid_t worker = static_cast<pid_t>(hello.pid);
  ASSERT_EQ(kill(worker, SIGSTOP), 0);
  WorkerHealth health = First<WorkerHealth>();
  EXPECT_FALSE(health.responsive);
  EXPECT_EQ(health.cause, "is stopped by a signal");
  EXPECT_EQ(health.worker_incarnation, hello.worker_incarnation);
  const std::string name = "rank 0 (pid " + std::to_string(worker) + ")";
  EXPECT_TRUE(agent.WaitFor(name + " is unresponsive: it is stopped by a signal")) << agent.err();
  ASSERT_EQ(kill(worker, SIGCONT), 0);
  EXPECT_TRUE(WaitForAny([](const AgentUp& message) {
    const auto* health = std::get_if<WorkerHealth>(&message);
    return health != nullptr && health->responsive;
  }));
  EXPECT_TRUE(agent.WaitFor(name + " answers again")) << agent.err();
  EXPECT_EQ(controller_.Count(EndsAWorker), 0);
  kill(worker, SIGTERM);
  EXPECT_EQ(agent.Wait(), 143);
}

TEST_F(ProgramTest, AWrongTokenIsPermanent) {
  AgentProgram::Options options = Options(FakeWorkerCommand({"attach", "expect", "link-permanent", "exit", "4"}));
  options.token = "wrong";
  AgentProgram agent(options);
  EXPECT_EQ(agent.Wait(), 4) << agent.out();
  EXPECT_NE(agent.out().find(controller_.address()), std::string::npos) << agent.out();
  EXPECT_NE(agent.out().find("refuses the token"), std::string::npos) << agent.out();
}

// Takes connections and drops them: an outage that counts the attempts.
void RefuseConnections(const std::string& address, int attempts) {
  const int port = std::stoi(address.substr(address.find(':') + 1));
  UniqueFd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int one = 1;
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  setsockopt(listener.get(), SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
  sockaddr_in local{};
  local.sin_family = AF_INET;
  local.sin_port = htons(port);
  local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  ASSERT_EQ(bind(listener.get(), reinterpret_cast<sockaddr*>(&local), sizeof local), 0);
  ASSERT_EQ(listen(listener.get(), 16), 0);
  for (int i = 0; i < attempts; ++i) {
    pollfd ready{listener.get(), POLLIN, 0};
    ASSERT_EQ(poll(&ready, 1, 30000), 1) << "nobody tries to connect";
    UniqueFd dropped(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  }
}

TEST_F(ProgramTest, TheLinkIsBackWithinHalfASecondAfterAnOutage) {
  AgentProgram::Options options =
      Options(FakeWorkersByRank({"attach serve", "attach expect link-up hello expect welcome die 9"}), 2);
  options.more = {"--grace-seconds", "1000"};
  AgentProgram agent(options);
  ASSERT_TRUE(WaitForAny(EndsAWorker));
  ASSERT_TRUE(WaitForAny(Says<Hello>));
  int64_t best_ms = INT64_MAX;
  for (int round = 1; round <= 3 && best_ms >= 500; ++round) {
    controller_.Stop();
    // Enough attempts for any back-off to have reached its greatest value.
    ASSERT_NO_FATAL_FAILURE(RefuseConnections(controller_.address(), 8));
    const TimePoint up = Clock::Monotonic().Now();
    controller_.Start();
    ASSERT_TRUE(controller_.WaitUntil([&](const std::vector<AgentUp>& messages) {
      int agents = 0;
      for (const AgentUp& message : messages) agents += Is<AgentHello>(message);
      return agents > round;
    }));
    best_ms = std::min(best_ms, Clock::Monotonic().Now().MsSince(up));
  }
  EXPECT_LT(best_ms, 500);
  // The dead are reported to the new controller as well, and the living say Hello.
  EXPECT_TRUE(controller_.WaitUntil([](const std::vector<AgentUp>& messages) {
    int ends = 0, hellos = 0, agents = 0;
    for (const AgentUp& message : messages) {
      agents += Is<AgentHello>(message);
      if (agents < 2) continue;
      ends += EndsAWorker(message);
      hellos += Says<Hello>(message);
    }
    return ends >= 1 && hellos >= 1;
  }));
  // An outage that lasts is said, and its end.
  controller_.Stop();
  ASSERT_NO_FATAL_FAILURE(RefuseConnections(controller_.address(), 16));
  controller_.Start();
  EXPECT_TRUE(agent.WaitFor("again")) << agent.err();
}

TEST_F(ProgramTest, ANewControllerIsToldWhoHasLeft) {
  AgentProgram agent(Options(FakeWorkerCommand(
      {"attach", "expect", "link-up", "hello", "expect", "welcome", "leave", "expect", "leave-done", "serve"})));
  ASSERT_TRUE(agent.WaitFor("leave-done")) << agent.out();
  EXPECT_EQ(controller_.Count(EndsAWorker), 0);
  controller_.Stop();
  controller_.Start();
  const WorkerEnded ended = First<WorkerEnded>();
  EXPECT_TRUE(ended.left);
  EXPECT_EQ(ended.worker_incarnation, Incarnation(ended.pid));
  kill(static_cast<pid_t>(ended.pid), SIGTERM);
  EXPECT_EQ(agent.Wait(), 143);
  EXPECT_EQ(controller_.Count(EndsAWorker), 1);
}

TEST_F(ProgramTest, UsageErrorsAreExitCode2) {
  AgentProgram missing(Options({"/no/such/program"}));
  EXPECT_EQ(missing.Wait(), 2);
  EXPECT_NE(missing.err().find("cannot execute '/no/such/program': No such file"), std::string::npos) << missing.err();
  AgentProgram::Options beyond = Options({"true"});
  beyond.controller = "example.invalid:1";
  AgentProgram insecure(beyond);
  EXPECT_EQ(insecure.Wait(), 2);
  EXPECT_NE(insecure.err().find("beyond loopback"), std::string::npos) << insecure.err();
}

TEST_F(ProgramTest, AsPid1ItReapsOrphans) {
  AgentProgram::Options options = Options({"sh", "-c",
                                           "echo parent $PPID; (sh -c 'exit 7' & exec sh -c 'exit 0') & wait; i=0;"
                                           "while grep -q '^State:.Z' /proc/[0-9]*/status 2>/dev/null; do"
                                           " i=$((i+1)); [ $i -gt 500 ] && exit 9; sleep 0.02; done; echo reaped"});
  options.wrapper = {"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"};
  AgentProgram agent(options);
  const int code = agent.Wait();
  if (agent.err().find("unshare: ") != std::string::npos) GTEST_SKIP() << "no pid namespaces here: " << agent.err();
  EXPECT_EQ(code, 0) << agent.out() << agent.err();
  EXPECT_NE(agent.out().find("parent 1\n"), std::string::npos) << agent.out();
  EXPECT_NE(agent.out().find("reaped\n"), std::string::npos) << agent.out();
}

}  // namespace
}  // namespace farandole::agent::core
