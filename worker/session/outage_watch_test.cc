#include "worker/session/outage_watch.h"

#include "gtest/gtest.h"

namespace farandole::worker::session {
namespace {

TimePoint At(int64_t ms) { return TimePoint(0).PlusMs(ms); }

WorkerReport Waiting(uint64_t open_ms, uint64_t in_flight_ms = 0) {
  WorkerReport report;
  report.oldest_open_ms = open_ms;
  if (open_ms > 0) report.oldest_open = "a";
  report.in_flight_ms = in_flight_ms;
  if (in_flight_ms > 0) report.in_flight = "b";
  return report;
}

TEST(OutageWatchTest, BothHaveToLast) {
  OutageWatch watch(5000);
  watch.Lost("no route", At(1000));
  EXPECT_EQ(watch.LeftMs(Waiting(0), At(100000)), 5000);
  EXPECT_EQ(watch.LeftMs(Waiting(2000), At(100000)), 3000);
  EXPECT_EQ(watch.LeftMs(Waiting(90000), At(2000)), 4000);
  EXPECT_EQ(watch.LeftMs(Waiting(90000), At(6000)), 0);
  EXPECT_EQ(watch.LeftMs(Waiting(0, 90000), At(6000)), 0);
  EXPECT_EQ(watch.LeftMs(Waiting(1, 90000), At(7000)), 0);
}

TEST(OutageWatchTest, EachOutageCountsFromItsBeginning) {
  OutageWatch watch(5000);
  EXPECT_FALSE(watch.lost());
  watch.Lost("no route", At(0));
  watch.Lost("refused", At(3000));
  EXPECT_EQ(watch.LeftMs(Waiting(9000), At(4000)), 1000);
  watch.Found();
  EXPECT_FALSE(watch.lost());
  watch.Lost("no route", At(4500));
  EXPECT_TRUE(watch.lost());
  EXPECT_EQ(watch.LeftMs(Waiting(9000), At(5000)), 4500);
}

TEST(OutageWatchTest, TheSentenceSaysSinceWhenAndWhatWaits) {
  OutageWatch watch(5000);
  watch.Lost("no route to 10.0.0.1", At(0));
  EXPECT_EQ(watch.Sentence(Waiting(7000), At(6000)),
            "the controller has been out of reach for 6 s, and \"a\" has waited for 7 s "
            "(FARANDOLE_CONTROLLER_TIMEOUT_SECONDS): no route to 10.0.0.1; look at the network between this host and "
            "the controller's, and whether the controller runs");
  EXPECT_NE(watch.Sentence(Waiting(1000, 7000), At(6000)).find("\"b\" has waited for 7 s"), std::string::npos);
}

}  // namespace
}  // namespace farandole::worker::session
