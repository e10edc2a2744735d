#include "agent/processes/process_end.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <thread>

namespace farandole::agent::processes {
namespace {

// A child that has ended and was not waited for.
pid_t Ended(const std::function<void()>& how) {
  const pid_t pid = fork();
  if (pid == 0) {
    how();
    _exit(99);
  }
  siginfo_t info{};
  EXPECT_EQ(waitid(P_PID, pid, &info, WEXITED | WNOWAIT), 0);
  return pid;
}

TEST(ProcessEnd, CanBeReadWithoutBeingTheParentUntilSomebodyHasWaited) {
  const pid_t exited = Ended([] { _exit(3); });
  const ProcessEnd end = ReadEnd(exited);
  EXPECT_EQ(end.pid, exited);
  EXPECT_EQ(end.code, 3);
  EXPECT_EQ(end.cause, "exited with code 3");
  waitpid(exited, nullptr, 0);
  EXPECT_EQ(ReadEnd(exited).code, -1);

  const pid_t killed = Ended([] { raise(SIGKILL); });
  EXPECT_EQ(ReadEnd(killed).code, 137);
  EXPECT_EQ(ReadEnd(killed).cause, "was killed by signal 9 (SIGKILL)");
  waitpid(killed, nullptr, 0);
}

TEST(ProcessEnd, IsKnownOrUnknownWhileSomebodyWaits) {
  for (int i = 0; i < 300; ++i) {
    const pid_t exited = Ended([] { _exit(3); });
    std::thread waiter([exited] { waitpid(exited, nullptr, 0); });
    int code = 0;
    do {
      code = ReadEnd(exited).code;
    } while (code == 3);
    EXPECT_EQ(code, -1);
    waiter.join();
  }
}

TEST(ProcessEnd, OfARunningProcessIsUnknown) {
  EXPECT_EQ(ReadEnd(getpid()).code, -1);
  EXPECT_EQ(ReadEnd(getpid()).cause, "ended without leaving the job");
}

TEST(ProcessEnd, ACoreDumpDoesNotHideTheSignal) {
  const pid_t aborted = Ended([] { abort(); });
  EXPECT_EQ(ReadEnd(aborted).code, 134);
  waitpid(aborted, nullptr, 0);
}

}  // namespace
}  // namespace farandole::agent::processes
