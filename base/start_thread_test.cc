#include "base/start_thread.h"

#include <pthread.h>

#include <csignal>
#include <string>

#include "base/scarcity_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using testing::HasSubstr;

TEST(StartThreadTest, NamesItAndBlocksSignalsInItAlone) {
  std::string name;
  bool blocked = false;
  absl::StatusOr<std::thread> thread = StartThread("a-name-that-is-too-long", [&] {
    char buffer[16];
    pthread_getname_np(pthread_self(), buffer, sizeof buffer);
    name = buffer;
    sigset_t now;
    pthread_sigmask(SIG_SETMASK, nullptr, &now);
    blocked = sigismember(&now, SIGINT) == 1;
  });
  ASSERT_TRUE(thread.ok()) << thread.status();
  thread->join();
  EXPECT_EQ(name, "a-name-that-is-");
  EXPECT_TRUE(blocked);
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGINT), 0);
}

TEST(StartThreadTest, SaysThatThereIsNone) {
  absl::StatusOr<std::thread> thread = std::thread();
  {
    NoThreads none;
    thread = StartThread("farandole-x", [] {});
  }
  EXPECT_EQ(thread.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(thread.status().message()), HasSubstr("\"farandole-x\""));
  sigset_t own;
  pthread_sigmask(SIG_SETMASK, nullptr, &own);
  EXPECT_EQ(sigismember(&own, SIGINT), 0);
}

}  // namespace
}  // namespace farandole
