#include "worker/os/fork_guard.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/private_fd.h"
#include "gtest/gtest.h"

namespace farandole::worker::os {
namespace {

// Exit code of a child that runs `body`.
template <typename Body>
int InChild(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(ForkGuardTest, MarksChildrenWhileGuardedAndClosesTheirDescriptors) {
  PrivateFd fd(eventfd(0, EFD_CLOEXEC));
  const auto look = [&] { return (Forked() ? 1 : 0) + (IsOpen(fd.get()) ? 2 : 0); };
  EXPECT_EQ(InChild(look), 2);
  GuardForks();
  EXPECT_EQ(InChild(look), 1);
  EXPECT_EQ(InChild([&] { return InChild(look); }), 1) << "a grandchild is forked, too";
  EXPECT_FALSE(Forked());
  EXPECT_TRUE(IsOpen(fd.get()));
  UnguardForks();
  EXPECT_EQ(InChild(look), 2);
}

}  // namespace
}  // namespace farandole::worker::os
