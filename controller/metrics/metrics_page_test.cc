#include "controller/metrics/metrics_page.h"

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::metrics {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FakeClock final : public Clock {
 public:
  TimePoint Now() const override { return now; }
  TimePoint now{1000};
};

struct FakeStream final : hub::AgentStream {
  void Send(std::string, hub::SharedBytes) override {}
  void Close(absl::Status) override {}
};

TEST(MetricsPage, IsKeptForASecond) {
  FakeClock clock;
  const hub::Log log(hub::LogLevel::kError);
  hub::Hub hub(hub::HubConfig{}, &clock, &log, [](TimePoint) {});
  MetricsPage page(&hub);
  EXPECT_THAT(page.Text(), Not(HasSubstr("\"j\"")));
  hub.Opened(std::make_shared<FakeStream>(), "j", {"a", "h", "", 0});
  clock.now = clock.now.PlusMs(999);
  EXPECT_THAT(page.Text(), Not(HasSubstr("\"j\"")));
  clock.now = clock.now.PlusMs(1);
  EXPECT_THAT(page.Text(), HasSubstr("\"j\""));
}

TEST(MetricsPage, TellsWhenThisProcessBegan) {
  const FakeClock clock;
  const hub::Log log(hub::LogLevel::kError);
  const hub::Hub hub(hub::HubConfig{}, &clock, &log, [](TimePoint) {});
  EXPECT_THAT(MetricsPage(&hub).Text(), HasSubstr("\nfarandole_controller_start_time_seconds 1"));
}

}  // namespace
}  // namespace farandole::controller::metrics
