#include "controller/query/json_text.h"

#include <gtest/gtest.h>

#include "farandole/v1/status.pb.h"

namespace farandole::controller::query {
namespace {

TEST(JsonTextTest, NumbersAreNumbersEnumsAreWordsAndNothingIsLeftOut) {
  v1::WaitInstead instead;
  EXPECT_EQ(JsonText(instead), R"({"ranks":[],"name":""})");
  instead.add_ranks(3);
  instead.add_ranks(-1);
  instead.set_name("a\"b\\c\nü");
  EXPECT_EQ(JsonText(instead), "{\"ranks\":[3,-1],\"name\":\"a\\\"b\\\\c\\u000aü\"}");

  v1::JobSummary job;
  job.set_state(v1::JOB_STATE_RUNNING);
  job.set_generation(18446744073709551615u);
  EXPECT_EQ(JsonText(job),
            R"({"job":"","state":"running","generation":18446744073709551615,"size":0,"unresponsive":0,"waits":0})");
}

TEST(JsonTextTest, MessagesNest) {
  v1::ListJobsReply reply;
  EXPECT_EQ(JsonText(reply), R"({"jobs":[]})");
  reply.add_jobs()->set_job("a");
  reply.add_jobs()->set_state(v1::JobState(4));
  EXPECT_EQ(JsonText(reply),
            R"({"jobs":[{"job":"a","state":"unspecified","generation":0,"size":0,"unresponsive":0,"waits":0},)"
            R"({"job":"","state":"recovering","generation":0,"size":0,"unresponsive":0,"waits":0}]})");
  v1::MemberStatus member;
  EXPECT_NE(JsonText(member).find(R"("responsive":false,)"), std::string::npos);
  EXPECT_NE(JsonText(member).find(R"("lateness":{"mean_us":0,"max_us":0,"last_count":0})"), std::string::npos);
}

}  // namespace
}  // namespace farandole::controller::query
