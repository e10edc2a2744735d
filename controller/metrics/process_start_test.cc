#include "controller/metrics/process_start.h"

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace farandole::controller::metrics {
namespace {

constexpr char kProcess[] =
    "7 (a) b (c) S 1 7 7 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 3 0 1234567 99 88 18446744073709551615 1 1\n";
constexpr char kMachine[] = "cpu  1 2 3\nintr 5 6\nctxt 7\nbtime 1700000000\nprocesses 9\n";

TEST(ProcessStart, IsBootTimeAndTicks) { EXPECT_EQ(StartSeconds(kProcess, kMachine, 100), 1700012345.67); }

TEST(ProcessStart, IsZeroOfWhatIsNotUnderstood) {
  EXPECT_EQ(StartSeconds("", kMachine, 100), 0);
  EXPECT_EQ(StartSeconds("7 (a) S 1 7", kMachine, 100), 0);
  EXPECT_EQ(StartSeconds(kProcess, "cpu 1\n", 100), 0);
  EXPECT_EQ(StartSeconds(kProcess, "btime x\n", 100), 0);
}

TEST(ProcessStart, OfThisProcessIsNow) {
  const double now = static_cast<double>(absl::GetCurrentTimeNanos()) / 1e9;
  // A test is killed after a minute; the time of boot has whole seconds.
  EXPECT_GT(ProcessStartSeconds(), now - 120);
  EXPECT_LT(ProcessStartSeconds(), now + 2);
}

}  // namespace
}  // namespace farandole::controller::metrics
