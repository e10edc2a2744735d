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

}  // namespace
}  // namespace farandole
