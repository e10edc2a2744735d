#include "base/job_name.h"

#include <string>

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(JobName, AJobOrAPartOfOne) {
  for (const char* name : {"j", "run-00ff", "A.b_c-9", "j/p", "run-1/0a.b_c-D"}) EXPECT_TRUE(IsJobName(name)) << name;
  for (const char* name : {"", "/", "/p", "j/", "j/p/q", "j//p", "j p", "j/p q", "j\n", "j:p", "\xc3\xa9"}) {
    EXPECT_FALSE(IsJobName(name)) << name;
  }
  EXPECT_TRUE(IsJobName(std::string(128, 'a')));
  EXPECT_FALSE(IsJobName(std::string(129, 'a')));
  EXPECT_TRUE(IsJobName("j/" + std::string(126, 'a')));
  EXPECT_FALSE(IsJobName("j/" + std::string(127, 'a')));
}

TEST(JobName, APartIsOfTheJobBeforeTheSlash) {
  EXPECT_EQ(WholeJob("j"), "j");
  EXPECT_EQ(WholeJob("j/p"), "j");
  EXPECT_EQ(WholeJob("j.p"), "j.p");
}

TEST(JobName, ANamespaceIsBeforeTheFirstDot) {
  EXPECT_EQ(NamespaceOf("team.digits"), "team");
  EXPECT_EQ(NamespaceOf("team.digits.2/part.x"), "team");
  EXPECT_EQ(NamespaceOf("digits"), "default");
  EXPECT_EQ(NamespaceOf("digits/team.x"), "default");
  for (const char* name : {"a", "Team_1-b"}) EXPECT_TRUE(IsNamespace(name)) << name;
  for (const char* name : {"", ".", "a.b", "a/b", "*", "a b"}) EXPECT_FALSE(IsNamespace(name)) << name;
  EXPECT_TRUE(IsNamespace(std::string(63, 'a')));
  EXPECT_FALSE(IsNamespace(std::string(64, 'a')));
  EXPECT_EQ(AllJobsOf("team"), "team.*");
  EXPECT_FALSE(IsJobName(AllJobsOf("team")));
  EXPECT_EQ(NamespaceOf(AllJobsOf("team")), "team");
  EXPECT_EQ(WholeJob(AllJobsOf("team")), "team.*");
  EXPECT_TRUE(IsAllJobs("team.*"));
  for (const char* name : {"", ".*", "*", "team", "team.", "a.b.*", "a/b.*", "team.*.*"})
    EXPECT_FALSE(IsAllJobs(name)) << name;
}

}  // namespace
}  // namespace farandole
