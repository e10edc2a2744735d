#include "controller/rpc/call_count.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::rpc {
namespace {

using ::testing::HasSubstr;

TEST(CallCountTest, AJobAndItsPartsHaveAShareAndNoMore) {
  const CallCount calls("watches", 2, 3);
  std::vector<CallCount::Permit> permits;
  for (const char* job : {"j", "j/part"}) permits.push_back(calls.Take(job).value());
  for (const char* job : {"j", "j/part", "j/other"}) {
    const absl::Status refused = calls.Take(job).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.message()), HasSubstr("2 watches of job \"j\" are under way"));
  }
  EXPECT_TRUE(calls.Take("other").ok()) << "and is given back";
  EXPECT_TRUE(calls.Take("other").ok());
  permits.pop_back();
  EXPECT_TRUE(calls.Take("j").ok());
}

TEST(CallCountTest, AllJobsTogetherAreBounded) {
  std::vector<CallCount::Permit> permits;
  {
    const CallCount calls("watches", 2, 3);
    for (const char* job : {"a", "b", "c"}) permits.push_back(calls.Take(job).value());
    EXPECT_THAT(std::string(calls.Take("d").status().message()), HasSubstr("3 watches are under way at this"));
    const CallCount copy = calls;
    EXPECT_FALSE(copy.Take("d").ok());
    permits.pop_back();
    EXPECT_TRUE(copy.Take("d").ok());
  }
  permits.clear();
}

}  // namespace
}  // namespace farandole::controller::rpc
