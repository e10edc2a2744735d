#include "agent/processes/supervisor.h"

#include <gtest/gtest.h>
#include <signal.h>

namespace farandole::agent::processes {
namespace {

TimePoint At(int64_t ms) { return TimePoint().PlusMs(ms); }

WorkerEnd Exited(int rank, int code) {
  WorkerEnd end;
  end.rank = Rank(rank);
  end.process = ProcessEnd{100 + rank, code, "exited with code " + std::to_string(code)};
  return end;
}

WorkerEnd Killed(int rank) {
  WorkerEnd end = Exited(rank, 137);
  end.process.cause = "was killed by signal 9 (SIGKILL)";
  return end;
}

TEST(Supervisor, AllWellIsSilent) {
  Supervisor supervisor({2, 3000, "h"});
  EXPECT_FALSE(supervisor.Ended(Exited(0, 0), At(1)).finished);
  EXPECT_EQ(supervisor.NextDeadline(), TimePoint::Infinite());
  const Supervisor::Step step = supervisor.Ended(Exited(1, 0), At(2));
  EXPECT_TRUE(step.finished);
  EXPECT_EQ(step.exit_code, 0);
  EXPECT_EQ(step.sentence, "");
}

TEST(Supervisor, OthersGetGraceThenTermThenKill) {
  Supervisor supervisor({3, 3000, "h"});
  EXPECT_EQ(supervisor.Ended(Killed(1), At(1000)).signal, 0);
  EXPECT_EQ(supervisor.NextDeadline(), At(4000));
  EXPECT_EQ(supervisor.Tick(At(3999)).signal, 0);
  const Supervisor::Step term = supervisor.Tick(At(4000));
  EXPECT_EQ(term.signal, SIGTERM);
  EXPECT_EQ(term.sentence, "");
  // Dies of our signal: not a failure of its own.
  EXPECT_FALSE(supervisor.Ended(Exited(0, 143), At(4001)).finished);
  EXPECT_EQ(supervisor.NextDeadline(), At(9000));
  EXPECT_EQ(supervisor.Tick(At(9000)).signal, SIGKILL);
  const Supervisor::Step last = supervisor.Ended(Killed(2), At(9001));
  EXPECT_TRUE(last.finished);
  EXPECT_EQ(last.exit_code, 137);
  EXPECT_EQ(last.sentence, "rank 1 (pid 101 on host h) failed first: it was killed by signal 9 (SIGKILL)");
}

TEST(Supervisor, TheFirstFailureGivesTheExitCode) {
  Supervisor supervisor({2, 3000, "h"});
  supervisor.Ended(Exited(1, 3), At(1));
  const Supervisor::Step step = supervisor.Ended(Exited(0, 1), At(2));
  EXPECT_EQ(step.exit_code, 3);
  EXPECT_EQ(step.sentence, "rank 1 (pid 101 on host h) failed first: it exited with code 3");
}

TEST(Supervisor, WhatEndsWhenAskedToHasNotFailed) {
  Supervisor interrupted({1, 3000, "h"});
  interrupted.AskedToEnd(At(1));
  const Supervisor::Step step = interrupted.Ended(Exited(0, 130), At(2));
  EXPECT_EQ(step.exit_code, 130);
  EXPECT_EQ(step.sentence, "");
  Supervisor supervisor({2, 3000, "h"});
  supervisor.Ended(Exited(0, 7), At(2));
  supervisor.AskedToEnd(At(3));
  EXPECT_EQ(supervisor.Ended(Exited(1, 130), At(4)).sentence,
            "rank 0 (pid 100 on host h) failed first: it exited with code 7");
}

TEST(Supervisor, AnAgentThatStoodStillBlamesItselfFirst) {
  Supervisor supervisor({2, 3000, "h"});
  WorkerEnd end = Exited(1, 1);
  end.agent_stood_still_ms = 59400;
  supervisor.Ended(end, At(1));
  EXPECT_EQ(
      supervisor.Ended(Exited(0, 0), At(2)).sentence,
      "the agent on host h was silent for 59 s, as a signal had stopped it or its machine was paused; the "
      "controller gives up the workers of such an agent. Meanwhile rank 1 (pid 101 on host h) exited with code 1");
}

TEST(Supervisor, WhoStoppedTakingPartFirstFailedFirst) {
  // Rank 1 raises, says Leave, and takes long to exit; rank 0 fails because of that and exits sooner.
  Supervisor supervisor({2, 3000, "h"});
  WorkerEnd consequence = Exited(0, 1), cause = Exited(1, 7);
  consequence.stopped_taking_part = At(20);
  cause.stopped_taking_part = At(10);
  supervisor.Ended(consequence, At(100));
  EXPECT_EQ(supervisor.Ended(cause, At(200)).exit_code, 7);
}

TEST(Supervisor, WhoStoppedTakingPartFirstFailedFirstAlsoWhenItOutlivesTheGrace) {
  for (int code : {7, 128 + SIGTERM}) {
    Supervisor supervisor({3, 500, "h"});
    WorkerEnd cause = Exited(1, code), other = Exited(2, 9);
    cause.stopped_taking_part = At(10);
    other.stopped_taking_part = At(700);
    supervisor.Ended(Exited(0, 1), At(100));
    EXPECT_EQ(supervisor.Tick(At(600)).signal, SIGTERM);
    supervisor.Ended(cause, At(900));
    // Killed by our signal it may have been about to end well; the third only reacts to the signal.
    EXPECT_EQ(supervisor.Ended(other, At(1000)).exit_code, code == 7 ? 7 : 1);
  }
}

TEST(Supervisor, WhoHasLeftIsSignalledOneStageLater) {
  Supervisor supervisor({3, 1000, "h"});
  supervisor.Ended(Exited(0, 1), At(0));
  const Supervisor::Step first = supervisor.Tick(At(1000)), second = supervisor.Tick(At(6000));
  EXPECT_EQ(first.signal, SIGTERM);
  EXPECT_EQ(first.signal_to_left, 0);
  EXPECT_EQ(second.signal, SIGKILL);
  EXPECT_EQ(second.signal_to_left, SIGTERM);
  EXPECT_EQ(supervisor.NextDeadline(), At(11000));
  EXPECT_EQ(supervisor.Tick(At(11000)).signal_to_left, SIGKILL);
  EXPECT_EQ(supervisor.NextDeadline(), TimePoint::Infinite());
}

TEST(Supervisor, WhoWasToldIsNotTheCulprit) {
  WorkerEnd told = Exited(0, 1);
  told.removed_because = "rank 9 (pid 5 on host b) was killed";
  {
    Supervisor supervisor({2, 3000, "h"});
    supervisor.Ended(told, At(1));
    EXPECT_EQ(supervisor.Ended(Exited(1, 4), At(2)).exit_code, 4);
  }
  Supervisor supervisor({1, 3000, "h"});
  const Supervisor::Step step = supervisor.Ended(told, At(1));
  EXPECT_EQ(step.exit_code, 1);
  EXPECT_EQ(step.sentence, "the job has failed: rank 9 (pid 5 on host b) was killed");
  Supervisor pod({1, 3000, "h", 75});
  EXPECT_EQ(pod.Ended(told, At(1)).exit_code, 75);
  Supervisor own({1, 3000, "h", 75});
  EXPECT_EQ(own.Ended(Exited(0, 1), At(1)).exit_code, 1) << "the script's own fault";
}

Supervisor::Plan ElasticPod(int workers) { return {workers, 3000, "h", 75, true, 25000}; }

TEST(Supervisor, WhoIsAskedToLeaveAnElasticJobHasAWhile) {
  Supervisor supervisor(ElasticPod(2));
  const Supervisor::Step step = supervisor.AskedToLeave(At(1000));
  EXPECT_TRUE(step.retire);
  EXPECT_EQ(step.signal, 0);
  EXPECT_FALSE(supervisor.AskedToLeave(At(1001)).retire) << "once";
  EXPECT_EQ(supervisor.NextDeadline(), At(26000));
  EXPECT_FALSE(supervisor.Ended(Exited(0, 0), At(2000)).finished);
  const Supervisor::Step last = supervisor.Ended(Exited(1, 0), At(3000));
  EXPECT_TRUE(last.finished);
  EXPECT_EQ(last.exit_code, 75) << "the job goes on elsewhere";
  EXPECT_EQ(last.sentence, "");
}

TEST(Supervisor, WhoFinishesWhileItIsAskedToLeaveHasFinished) {
  Supervisor supervisor(ElasticPod(1));
  supervisor.AskedToLeave(At(0));
  WorkerEnd finished = Exited(0, 0);
  finished.finished = true;
  EXPECT_EQ(supervisor.Ended(finished, At(1)).exit_code, 0);
}

TEST(Supervisor, WhoDoesNotLeaveAnElasticJobIsEnded) {
  Supervisor supervisor(ElasticPod(1));
  supervisor.AskedToLeave(At(0));
  EXPECT_EQ(supervisor.Tick(At(24999)).signal, 0);
  EXPECT_EQ(supervisor.Tick(At(25000)).signal, SIGTERM);
  const Supervisor::Step last = supervisor.Ended(Exited(0, 143), At(25001));
  EXPECT_EQ(last.exit_code, 75);
  EXPECT_EQ(last.sentence, "");
}

TEST(Supervisor, AFailureWhileAnElasticJobIsLeftIsOne) {
  Supervisor supervisor(ElasticPod(1));
  supervisor.AskedToLeave(At(0));
  EXPECT_EQ(supervisor.Ended(Exited(0, 3), At(1)).exit_code, 3);
}

TEST(Supervisor, WhenOneFailsTheOthersLeaveTheElasticJobAndTakeTheirTime) {
  Supervisor supervisor(ElasticPod(3));
  const Supervisor::Step step = supervisor.Ended(Killed(1), At(0));
  EXPECT_TRUE(step.retire);
  EXPECT_EQ(step.signal, 0);
  EXPECT_EQ(supervisor.NextDeadline(), TimePoint::Infinite());
  EXPECT_FALSE(supervisor.Ended(Exited(0, 0), At(100000)).retire);
  const Supervisor::Step last = supervisor.Ended(Exited(2, 0), At(100001));
  EXPECT_EQ(last.exit_code, 137);
  EXPECT_EQ(last.sentence,
            "the process in slot 1 (pid 101 on host h) failed first: it was killed by signal 9 (SIGKILL)");
}

TEST(Supervisor, AnElasticJobThatFinishesIsNoFailure) {
  Supervisor supervisor(ElasticPod(1));
  EXPECT_EQ(supervisor.Ended(Exited(0, 0), At(0)).exit_code, 0);
}

TEST(Supervisor, WhoHadLeftBeforeIsNamed) {
  // Rank 1 calls sys.exit(0) early; rank 0 fails because of that.
  Supervisor supervisor({2, 3000, "h"});
  WorkerEnd early = Exited(1, 0);
  early.stopped_taking_part = At(10);
  WorkerEnd consequence = Exited(0, 1);
  consequence.stopped_taking_part = At(20);
  supervisor.Ended(consequence, At(100));
  EXPECT_EQ(
      supervisor.Ended(early, At(200)).sentence,
      "rank 0 (pid 100 on host h) failed first: it exited with code 1; rank 1 had left before, and exited with code 0");

  Supervisor late({4, 3000, "h"});
  late.Ended(Exited(2, 0), At(1));
  late.Ended(Exited(3, 0), At(2));
  late.Ended(Exited(1, 5), At(3));
  EXPECT_EQ(late.Ended(Exited(0, 0), At(4)).sentence,
            "rank 1 (pid 101 on host h) failed first: it exited with code 5; rank 2 and 1 other had left before, and "
            "exited with code 0");
}

TEST(Supervisor, EndingWithoutLeavingIsAFailure) {
  Supervisor supervisor({1, 3000, "h"});
  WorkerEnd end = Exited(0, 0);
  end.without_leaving = true;
  const Supervisor::Step step = supervisor.Ended(end, At(1));
  EXPECT_EQ(step.exit_code, 1);
  EXPECT_EQ(step.sentence, "rank 0 (pid 100 on host h) failed first: it exited with code 0 without leaving the job");
}

TEST(Supervisor, WithoutItsLauncherEverythingEndsSoon) {
  Supervisor supervisor({2, 3000, "h"});
  const Supervisor::Step term = supervisor.LauncherGone(At(100));
  EXPECT_EQ(term.signal, SIGTERM);
  EXPECT_EQ(term.signal_to_left, SIGTERM);
  const Supervisor::Step kill = supervisor.Tick(At(2100));
  EXPECT_EQ(kill.signal, SIGKILL);
  EXPECT_EQ(kill.signal_to_left, SIGKILL);
  supervisor.Ended(Killed(0), At(2101));
  const Supervisor::Step last = supervisor.Ended(Killed(1), At(2102));
  EXPECT_TRUE(last.finished);
  EXPECT_EQ(last.exit_code, 1);
  EXPECT_EQ(last.sentence, "the launcher has ended or let go of this host, so its workers were ended");
}

}  // namespace
}  // namespace farandole::agent::processes
