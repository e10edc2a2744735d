#include "controller/waits/rate_meter.h"

#include "gtest/gtest.h"

namespace farandole::controller::waits {
namespace {

TEST(RateMeterTest, RatesAreThoseOfTheLastTenSeconds) {
  RateMeter meter;
  TimePoint now(0);
  Traffic total;
  EXPECT_EQ(meter.At(total, now).bytes_per_second, 0u);
  for (int s = 0; s < 100; ++s) {
    total.bytes += s < 50 ? 1000 : 5000;
    total.batches += 2;
    meter.Note(total, now);
    now = now.PlusMs(1000);
  }
  EXPECT_NEAR(static_cast<double>(meter.At(total, now).bytes_per_second), 4500, 500);
  EXPECT_NEAR(static_cast<double>(meter.At(total, now).batches_per_second), 2, 1);
  // Nothing comes any more.
  EXPECT_EQ(meter.At(total, now.PlusMs(60000)).bytes_per_second, 0u);
}

}  // namespace
}  // namespace farandole::controller::waits
