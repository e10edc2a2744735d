#include "agent/core/liveness.h"

#include <gtest/gtest.h>
#include <unistd.h>

namespace farandole::agent::core {
namespace {

TEST(Liveness, ReadsTheStateBehindAnyName) {
  EXPECT_EQ(ParseProcessState("7 (python3) S 1 7 7"), 'S');
  EXPECT_EQ(ParseProcessState("7 (a) T (b) R) T 1 7 7"), 'T');
  EXPECT_EQ(ParseProcessState("7 (python3)"), 0);
  EXPECT_EQ(ParseProcessState(""), 0);
  EXPECT_EQ(ProcessState(getpid()), 'R');
  EXPECT_EQ(ProcessState(-1), 0);
}

TEST(Liveness, JudgesStateAndSilence) {
  const TimePoint now = TimePoint().PlusMs(100000);
  EXPECT_TRUE(Judge('S', now, now, 5000).responsive);
  EXPECT_TRUE(Judge('D', TimePoint().PlusMs(95000), now, 5000).responsive);
  EXPECT_EQ(Judge('T', now, now, 5000).cause, "is stopped by a signal");
  EXPECT_EQ(Judge('t', now, now, 5000).cause, "is stopped by a debugger");
  EXPECT_EQ(Judge('R', TimePoint().PlusMs(94999), now, 5000).cause, "has not run its control thread for 5 s");
}

}  // namespace
}  // namespace farandole::agent::core
