#include "controller/rpc/job_list.h"

#include <memory>
#include <string>
#include <vector>

#include "controller/hub/fakes_testing.h"
#include "controller/hub/hub.h"
#include "controller/hub/log.h"
#include "farandole/v1/status.pb.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::rpc {
namespace {

using ::testing::ElementsAre;

TEST(JobList, IsMadeOnceASecondForAllNamespaces) {
  hub::FakeClock clock;
  const hub::Log log(hub::LogLevel::kError);
  hub::Hub hub(hub::HubConfig{}, &clock, &log, [](TimePoint) {});
  JobList list(&hub);
  const auto jobs = [&list](const char* name) {
    v1::ListJobsReply reply;
    list.Write(name, &reply);
    std::vector<std::string> names;
    for (const auto& job : reply.jobs()) names.push_back(job.job());
    return names;
  };
  EXPECT_THAT(jobs("team"), ElementsAre());
  for (const char* job : {"team.a", "team.a/part", "other.b"}) {
    hub.Opened(std::make_shared<hub::FakeStream>(), job, {"a", "h", "", 0});
  }
  clock.now = clock.now.PlusMs(JobList::kKeptMs - 1);
  EXPECT_THAT(jobs("team"), ElementsAre());
  EXPECT_THAT(jobs("other"), ElementsAre());
  clock.now = clock.now.PlusMs(1);
  EXPECT_THAT(jobs("team"), ElementsAre("team.a"));
  EXPECT_THAT(jobs("other"), ElementsAre("other.b"));
}

}  // namespace
}  // namespace farandole::controller::rpc
