#include "controller/metrics_page.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return now; }
  TimePoint now{1000};
};

struct FakeStream final : AgentStream {
  void Send(std::string, SharedBytes) override {}
  void Close(absl::Status) override {}
};

TEST(MetricsPage, IsKeptForASecond) {
  FakeClock clock;
  const Log log(LogLevel::kError);
  Hub hub(HubConfig{}, &clock, &log, [](TimePoint) {});
  MetricsPage page(&hub);
  EXPECT_THAT(page.Text(), Not(HasSubstr("\"j\"")));
  hub.Opened(std::make_shared<FakeStream>(), "j", {"a", "h", "", 0});
  clock.now = clock.now.PlusMs(999);
  EXPECT_THAT(page.Text(), Not(HasSubstr("\"j\"")));
  clock.now = clock.now.PlusMs(1);
  EXPECT_THAT(page.Text(), HasSubstr("\"j\""));
}

}  // namespace
}  // namespace farandole
