#include "controller/members/forgotten_jobs.h"

#include <string>

#include "gtest/gtest.h"

namespace farandole::controller::members {
namespace {

TEST(ForgottenJobsTest, KeepsTheLastOfEachJob) {
  ForgottenJobs jobs(4);
  jobs.Keep("a", {3, 0, {{3, 7}, "first"}});
  jobs.Keep("b", {9, 8, {}});
  jobs.Keep("a", {5, 0, {{5, 7}, "second"}});
  EXPECT_EQ(jobs.Find("a").last_generation, 5u);
  EXPECT_EQ(jobs.Find("a").incarnation, 0u);
  EXPECT_EQ(jobs.Find("a").ended.id, (GenerationId{5, 7}));
  EXPECT_EQ(jobs.Find("a").ended.reason, "second");
  EXPECT_EQ(jobs.Find("b").last_generation, 9u);
  EXPECT_EQ(jobs.Find("b").incarnation, 8u);
  EXPECT_EQ(jobs.Find("unknown").last_generation, 0u);
  EXPECT_EQ(jobs.Find("unknown").ended.id.number, 0u);
}

TEST(ForgottenJobsTest, WhatIsNotSaidStaysKnown) {
  ForgottenJobs jobs(4);
  jobs.Keep("a", {3, 8, {{3, 7}, "why"}});
  jobs.Keep("a", {});
  jobs.Keep("a", {4, 0, {{4, 8}, ""}});
  EXPECT_EQ(jobs.Find("a").last_generation, 4u);
  EXPECT_EQ(jobs.Find("a").incarnation, 8u);
  EXPECT_EQ(jobs.Find("a").ended.id, (GenerationId{3, 7})) << "one that all have left has no reason";
  EXPECT_EQ(jobs.Find("a").ended.reason, "why");
}

TEST(ForgottenJobsTest, KnowsTheRunThatWasFinished) {
  ForgottenJobs jobs(4);
  jobs.Keep("a", {0, 0, {}, {"run", std::string(ForgottenJobs::kReasonBytesMax + 1, 'x')}});
  jobs.Keep("a", {4, 0, {}});
  EXPECT_EQ(jobs.Find("a").finished.run, "run");
  EXPECT_EQ(jobs.Find("a").finished.text.size(), ForgottenJobs::kReasonBytesMax);
  jobs.Keep("a", {0, 0, {}, {"next", "done"}});
  EXPECT_EQ(jobs.Find("a").finished.run, "next");
  EXPECT_EQ(jobs.Find("a").last_generation, 4u);
}

TEST(ForgottenJobsTest, ForgetsTheEldestBeyondItsBound) {
  ForgottenJobs jobs(2);
  jobs.Keep("a", {1, 0, {}});
  jobs.Keep("b", {2, 0, {{2, 7}, "why"}});
  jobs.Keep("nothing", {});
  jobs.Keep("a", {3, 0, {}});
  jobs.Keep("c", {4, 0, {}});
  EXPECT_EQ(jobs.Find("a").last_generation, 3u) << "kept again since";
  EXPECT_EQ(jobs.Find("b").last_generation, 0u);
  EXPECT_EQ(jobs.Find("b").ended.reason, "");
  EXPECT_EQ(jobs.Find("c").last_generation, 4u);
}

TEST(ForgottenJobsTest, TheNamespaceWithMostMakesRoom) {
  ForgottenJobs jobs(4);
  jobs.Keep("a-quiet.a", {1, 0, {}});
  for (uint64_t i = 1; i <= 20; ++i) jobs.Keep("loud." + std::to_string(i), {i, 0, {}});
  EXPECT_EQ(jobs.Find("a-quiet.a").last_generation, 1u);
  EXPECT_EQ(jobs.Find("loud.18").last_generation, 18u);
  EXPECT_EQ(jobs.Find("loud.17").last_generation, 0u);
  jobs.Keep("a-quiet.b", {2, 0, {}});
  EXPECT_EQ(jobs.Find("loud.18").last_generation, 0u);
  EXPECT_EQ(jobs.Find("loud.19").last_generation, 19u);
}

TEST(ForgottenJobsTest, ALongReasonIsCut) {
  ForgottenJobs jobs(2);
  jobs.Keep("a", {1, 0, {{1, 7}, std::string(ForgottenJobs::kReasonBytesMax + 1, 'x')}});
  EXPECT_EQ(jobs.Find("a").ended.reason, std::string(ForgottenJobs::kReasonBytesMax, 'x'));
}

}  // namespace
}  // namespace farandole::controller::members
