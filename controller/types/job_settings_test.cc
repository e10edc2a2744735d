#include "controller/types/job_settings.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using Said = std::vector<Variable>;

TEST(JobSettingsTest, WhatIsSetReplacesTheRestStays) {
  JobSettings settings;
  settings.cache_capacity = 7;
  const Said said = {{"HOROVOD_FUSION_THRESHOLD", "1024"},
                     {"HOROVOD_CYCLE_TIME", "0.5"},
                     {"FARANDOLE_DETERMINISTIC", "1"},
                     {"HOROVOD_STALL_CHECK_TIME_SECONDS", "1.5"},
                     {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "5"},
                     {"HOROVOD_OF_A_LATER_RELEASE", "x"}};
  ASSERT_TRUE(ReadSettings(said, &settings).ok());
  EXPECT_EQ(settings.fusion_threshold_bytes, 1024);
  EXPECT_EQ(settings.batch_window_ms, 1u) << "in whole milliseconds";
  EXPECT_TRUE(settings.deterministic);
  EXPECT_EQ(settings.cache_capacity, 7u);
  EXPECT_EQ(settings.Watch().stall.warn_after_ms, 1500);
  EXPECT_EQ(settings.Watch().stall.shutdown_after_ms, 5000);
  EXPECT_EQ(settings.Watch().divergence_after_ms, 60000);
}

TEST(JobSettingsTest, AStallCheckThatIsOffCanBeTurnedOnAgain) {
  JobSettings settings;
  ASSERT_TRUE(ReadSettings(Said{{"HOROVOD_STALL_CHECK_DISABLE", "1"}}, &settings).ok());
  EXPECT_EQ(settings.Watch().stall.warn_after_ms, 0);
  ASSERT_TRUE(ReadSettings(Said{{"HOROVOD_STALL_CHECK_DISABLE", "0"}}, &settings).ok());
  EXPECT_EQ(settings.Watch().stall.warn_after_ms, 60000);
}

TEST(JobSettingsTest, ATruthValueMayBeAWord) {
  for (const char* yes : {"1", "true", "True", "YES", "on"}) {
    JobSettings settings;
    ASSERT_TRUE(ReadSettings(Said{{"FARANDOLE_DETERMINISTIC", yes}}, &settings).ok()) << yes;
    EXPECT_TRUE(settings.deterministic) << yes;
  }
  for (const char* no : {"0", "false", "No", "OFF"}) {
    JobSettings settings;
    settings.deterministic = true;
    ASSERT_TRUE(ReadSettings(Said{{"FARANDOLE_DETERMINISTIC", no}}, &settings).ok()) << no;
    EXPECT_FALSE(settings.deterministic) << no;
  }
}

TEST(JobSettingsTest, OwnNamesComeFirst) {
  JobSettings settings;
  const Said said = {{"HOROVOD_CYCLE_TIME", "2"}, {"FARANDOLE_CYCLE_TIME", "3"}};
  ASSERT_TRUE(ReadSettings(said, &settings).ok());
  EXPECT_EQ(settings.batch_window_ms, 3u);
}

TEST(JobSettingsTest, WhatMakesNoSenseIsNamedAndChangesNothing) {
  const Said bad = {{"HOROVOD_FUSION_THRESHOLD", "-1"},
                    {"HOROVOD_FUSION_THRESHOLD", "9999999999999"},
                    {"HOROVOD_CYCLE_TIME", "60001"},
                    {"FARANDOLE_CACHE_CAPACITY", "65537"},
                    {"HOROVOD_STALL_CHECK_TIME_SECONDS", "nan"},
                    {"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "soon"},
                    {"HOROVOD_STALL_CHECK_DISABLE", "2"},
                    {"FARANDOLE_DETERMINISTIC", "maybe"},
                    {"FARANDOLE_DIVERGENCE_SECONDS", "-3"}};
  for (const Variable& variable : bad) {
    JobSettings settings;
    const absl::Status status = ReadSettings(Said{variable, {"FARANDOLE_DETERMINISTIC", "1"}}, &settings);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()), HasSubstr(variable.name + "=\"" + variable.value + "\": expected "));
    EXPECT_FALSE(settings.deterministic);
  }
}

TEST(JobSettingsTest, RanksThatWantSomethingElseAreNamed) {
  const Said zero = {{"HOROVOD_CYCLE_TIME", "5"}};
  const Said other = {{"HOROVOD_CYCLE_TIME", "6"}, {"HOROVOD_CACHE_CAPACITY", "9"}};
  const Said same = {{"HOROVOD_CYCLE_TIME", "5.0"}};
  const Said nothing;
  JobSettings used;
  ASSERT_TRUE(ReadSettings(zero, &used).ok());
  EXPECT_THAT(Disregarded(used, {&zero, &nothing, &same, &zero}), IsEmpty());
  EXPECT_THAT(Disregarded(used, {&zero, &other, &same, &other}),
              ElementsAre(HasSubstr("what ranks 1 and 3 set with HOROVOD_CYCLE_TIME is not done"),
                          HasSubstr("what ranks 1 and 3 set with HOROVOD_CACHE_CAPACITY is not done")));
  EXPECT_THAT(Disregarded(used, {}), IsEmpty());
}

}  // namespace
}  // namespace farandole::controller
