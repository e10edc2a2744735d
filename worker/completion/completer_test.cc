#include "worker/completion/completer.h"

#include <future>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace farandole::worker::completion {
namespace {

TEST(CompleterTest, CallsInOrderFromAThreadOfItsOwn) {
  Completer completer;
  ASSERT_TRUE(completer.Start().ok());
  ASSERT_TRUE(completer.Start().ok());
  std::vector<int> order;
  std::thread::id thread;
  for (int i = 0; i < 100; ++i) {
    completer.Post([&, i] {
      order.push_back(i);
      thread = std::this_thread::get_id();
    });
  }
  completer.Stop();
  ASSERT_EQ(order.size(), 100u);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(order[i], i);
  EXPECT_NE(thread, std::this_thread::get_id());
  EXPECT_TRUE(absl::IsFailedPrecondition(completer.Start()));
}

TEST(CompleterTest, DrainedWhenTheLastCallIsOver) {
  Completer completer;
  EXPECT_TRUE(completer.Drain(0)) << "nothing has been posted";
  ASSERT_TRUE(completer.Start().ok());
  std::promise<void> goes_on;
  bool over = false;
  completer.Post([&] {
    goes_on.get_future().wait();
    // One that posts the next.
    completer.Post([&] { over = true; });
  });
  EXPECT_FALSE(completer.Drain(0));
  EXPECT_FALSE(completer.Drain(1));
  goes_on.set_value();
  while (!completer.Drain(1000)) {
  }
  EXPECT_TRUE(over);
}

TEST(CompleterTest, EndsWithoutEverHavingBegun) {
  Completer completer;
  completer.Stop();
  completer.Stop();
}

}  // namespace
}  // namespace farandole::worker::completion
