#include "worker/os/contention.h"

#include "gtest/gtest.h"

namespace farandole::worker::os {
namespace {

constexpr int64_t kLateNs = 300 * 1000;

class ContentionTest : public ::testing::Test {
 protected:
  // Gives the CPU away for so long; for how long contention is expected after that.
  int64_t Expected(int64_t away_ns) {
    const int64_t gone_ns = now_ns_;
    now_ns_ += away_ns;
    contention_.CameBack(gone_ns, now_ns_);
    const int64_t back_ns = now_ns_;
    while (contention_.Expected(now_ns_)) now_ns_ += Contention::kLeastNs;
    return now_ns_ - back_ns;
  }

  int64_t now_ns_ = 1;
  Contention contention_{kLateNs};
};

TEST_F(ContentionTest, NoneIsExpectedOfACpuThatComesBackAtOnce) {
  EXPECT_FALSE(contention_.Expected(now_ns_));
  EXPECT_EQ(Expected(kLateNs), 0);
}

TEST_F(ContentionTest, ItIsExpectedForLongerAndLongerWhileItGoesOn) {
  int64_t expected = Contention::kLeastNs;
  for (; expected < Contention::kMostNs; expected *= 2) EXPECT_EQ(Expected(kLateNs + 1), expected);
  EXPECT_EQ(Expected(kLateNs + 1), Contention::kMostNs);
  EXPECT_EQ(Expected(kLateNs + 1), Contention::kMostNs);
}

TEST_F(ContentionTest, ACpuThatComesBackAtOnceShortensItSlowly) {
  for (int i = 0; i < 5; ++i) Expected(kLateNs + 1);
  // A third of the time is enough for it to stay expected.
  for (int i = 0; i < 100; ++i) {
    Expected(kLateNs + 1);
    for (int k = 0; k < 2; ++k) EXPECT_EQ(Expected(1000), 0);
  }
  EXPECT_GE(Expected(kLateNs + 1), Contention::kMostNs * 3 / 4);
  for (int i = 0; i < 80; ++i) EXPECT_EQ(Expected(1000), 0);
  EXPECT_EQ(Expected(kLateNs + 1), Contention::kLeastNs);
}

}  // namespace
}  // namespace farandole::worker::os
