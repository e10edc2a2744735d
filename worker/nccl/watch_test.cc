#include "worker/nccl/watch.h"

#include <atomic>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"

namespace farandole::worker::nccl {
namespace {

// Something is under way `left` times that it is looked at.
class Counted final : public Watch::Client {
 public:
  Watch::Seen Look() override {
    looks_.Advance();
    if (left_.load() == 0) return Watch::Seen::kNothing;
    return --left_ == 0 ? Watch::Seen::kEnded : Watch::Seen::kWaits;
  }
  void Begin(int looks) { left_ = looks; }
  bool ended() const { return left_ == 0; }
  // False if it has not been looked at so often in time.
  bool AwaitLooks(uint32_t count) {
    for (uint32_t seen = looks_.Value(); seen < count; seen = looks_.Value()) {
      if (!looks_.WaitPast(seen, 20000)) return false;
    }
    return true;
  }
  uint32_t looks() const { return looks_.Value(); }

 private:
  os::EventCount looks_;
  std::atomic<int> left_{0};
};

TEST(WatchTest, LooksUntilItHasEnded) {
  Watch watch;
  Counted client;
  client.Begin(30);
  ASSERT_TRUE(watch.Add(&client).ok());
  watch.Wake();
  EXPECT_TRUE(client.AwaitLooks(31));
  EXPECT_TRUE(client.ended());
  watch.Remove(&client);
}

TEST(WatchTest, SleepsWhenNothingIsUnderWay) {
  Watch watch;
  Counted client, other;
  ASSERT_TRUE(watch.Add(&client).ok());
  ASSERT_TRUE(watch.Add(&other).ok());
  client.Begin(3);
  watch.Wake();
  EXPECT_TRUE(client.AwaitLooks(4));
  // A thread that went on would look at both by turns.
  const uint32_t seen = other.looks();
  other.Begin(1);
  watch.Wake();
  EXPECT_TRUE(other.AwaitLooks(seen + 1));
  EXPECT_LE(client.looks(), 10u);
  watch.Remove(&client);
  watch.Remove(&other);
}

// Holds the watch's thread inside a look.
class Held final : public Watch::Client {
 public:
  Watch::Seen Look() override {
    if (!entered.HasBeenNotified()) entered.Notify();
    let_go.WaitForNotification();
    left = true;
    return Watch::Seen::kNothing;
  }
  absl::Notification entered, let_go;
  std::atomic<bool> left{false};
};

// Its neighbour is not passed over.
TEST(WatchTest, LooksAtTheOthersWhenOneIsRemoved) {
  Watch watch;
  Held first;
  Counted second;
  second.Begin(5);
  ASSERT_TRUE(watch.Add(&first).ok());
  ASSERT_TRUE(watch.Add(&second).ok());
  watch.Wake();
  first.entered.WaitForNotification();
  std::thread removes([&] { watch.Remove(&first); });
  first.let_go.Notify();
  removes.join();
  EXPECT_TRUE(second.AwaitLooks(6));
  EXPECT_TRUE(second.ended());
  watch.Remove(&second);
}

TEST(WatchTest, DoesNotLookAtWhatWasRemoved) {
  Watch watch;
  Held client;
  ASSERT_TRUE(watch.Add(&client).ok());
  watch.Wake();
  client.entered.WaitForNotification();
  std::thread releases([&client] { client.let_go.Notify(); });
  watch.Remove(&client);
  EXPECT_TRUE(client.left);
  releases.join();
}

}  // namespace
}  // namespace farandole::worker::nccl
