#include "worker/os/patience.h"

#include <gtest/gtest.h>

namespace farandole::worker::os {
namespace {

// Every glance at it takes 10 us, or what the test says.
class TickingClock final : public Clock {
 public:
  TimePoint Now() const override { return TimePoint(ns_ += tick_ns); }

  int64_t tick_ns = 10000;

 private:
  mutable int64_t ns_ = 0;
};

class PatienceTest : public testing::Test {
 protected:
  PatienceTest() { patience_.Enable(true); }

  // How often a look in vain looks; 0 if it parks at once.
  int LookInVain() {
    int looks = 0;
    EXPECT_FALSE(patience_.Look([&looks] { return ++looks < 0; }));
    return looks;
  }
  int WaitsUntilTheNextLook() {
    int waits = 0;
    while (waits < 1000 && LookInVain() == 0) ++waits;
    return waits;
  }

  TickingClock clock_;
  Patience patience_{clock_};
};

TEST_F(PatienceTest, LooksUntilItIsDone) {
  int looks = 0;
  EXPECT_TRUE(patience_.Look([&looks] { return ++looks == 5; }));
  EXPECT_EQ(looks, 5);
}

// And looks a last time.
TEST_F(PatienceTest, ALookIsBounded) { EXPECT_EQ(LookInVain(), Patience::kLookNs / 10000 + 1); }

TEST_F(PatienceTest, ACpuThatComesBackLateEndsTheLook) {
  clock_.tick_ns = Patience::kTakenNs + 1;
  EXPECT_EQ(LookInVain(), 2);
  EXPECT_EQ(WaitsUntilTheNextLook(), 1) << "and is remembered as one in vain";
  EXPECT_EQ(WaitsUntilTheNextLook(), 3);
  while (!patience_.Look([] { return true; })) {
  }
  int looks = 0;
  EXPECT_TRUE(patience_.Look([&looks] { return ++looks == 2; })) << "unless the answer has come meanwhile";
}

TEST_F(PatienceTest, LooksLessOftenWhileItIsInVain) {
  EXPECT_GT(LookInVain(), 0);
  for (int waits : {1, 3, 7, 15, 31, 63, 63, 63}) EXPECT_EQ(WaitsUntilTheNextLook(), waits);
}

TEST_F(PatienceTest, OneAnswerInTimeMakesItPatientAgain) {
  LookInVain();
  for (int i = 0; i < 4; ++i) WaitsUntilTheNextLook();
  while (!patience_.Look([] { return true; })) {
  }
  EXPECT_GT(LookInVain(), 0);
  EXPECT_EQ(WaitsUntilTheNextLook(), 1);
}

TEST_F(PatienceTest, ParksAtOnceWhenItIsOff) {
  patience_.Enable(false);
  EXPECT_EQ(LookInVain(), 0);
}

}  // namespace
}  // namespace farandole::worker::os
