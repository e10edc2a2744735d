#include "base/private_fd.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <utility>

#include "gtest/gtest.h"

namespace farandole {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

int NewFd() { return eventfd(0, EFD_CLOEXEC); }

TEST(PrivateFdTest, ClosesWhatItOwns) {
  int number;
  {
    PrivateFd fd(NewFd());
    number = fd.get();
    EXPECT_TRUE(IsOpen(number));
    PrivateFd other(std::move(fd));
    EXPECT_FALSE(fd.valid());
    EXPECT_TRUE(IsOpen(number));
  }
  EXPECT_FALSE(IsOpen(number));
}

TEST(PrivateFdTest, ChildClosesNotedOnesOnly) {
  PrivateFd noted(NewFd());
  PrivateFd given(NewFd());
  const int released = given.Release();
  const int far = fcntl(noted.get(), F_DUPFD_CLOEXEC, 700);
  PrivateFd second_word(far);

  const pid_t child = fork();
  if (child == 0) {
    ClosePrivateFdsInChild();
    _exit((IsOpen(noted.get()) ? 1 : 0) | (IsOpen(far) ? 2 : 0) | (IsOpen(released) ? 0 : 4));
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(IsOpen(noted.get()));
  close(released);
}

}  // namespace
}  // namespace farandole
