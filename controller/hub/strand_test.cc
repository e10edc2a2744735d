#include "controller/hub/strand.h"

#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::hub {
namespace {

TEST(StrandTest, RunsInlineWhenIdleAndLaterWhenBusy) {
  Strand strand;
  std::vector<int> order;
  strand.Post([&] {
    order.push_back(1);
    strand.Post([&] { order.push_back(3); });
    order.push_back(2);
  });
  EXPECT_THAT(order, ::testing::ElementsAre(1, 2, 3));
}

TEST(StrandTest, OneAtATimeFromManyThreads) {
  Strand strand;
  int count = 0;  // unguarded on purpose
  std::vector<int> last(4, -1);
  bool in_order = true;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 2000; ++i) {
        strand.Post([&, t, i] {
          ++count;
          in_order = in_order && last[t] == i - 1;
          last[t] = i;
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  int seen = 0;
  strand.Post([&] { seen = count; });
  EXPECT_EQ(seen, 8000);
  EXPECT_TRUE(in_order);
}

}  // namespace
}  // namespace farandole::controller::hub
