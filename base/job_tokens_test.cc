#include "base/job_tokens.h"

#include <string>

#include "base/auth.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

constexpr int64_t kEndS = 2000;

std::string RoleIn(const std::string& job, const std::string& token) {
  return std::string(RoleOfToken(job, {"new key", "old key"}, TokenEnd(token),
                                 [&](absl::string_view other) { return EqualSecrets(token, other); }));
}

TEST(JobTokensTest, ATokenOfTheJobOpensItAndItsParts) {
  EXPECT_EQ(RoleIn("team.digits", MakeToken("new key", "team.digits", "member")), "member");
  EXPECT_EQ(RoleIn("team.digits/part", MakeToken("old key", "team.digits", "observer", kEndS)), "observer");
  EXPECT_EQ(RoleIn("team.other", MakeToken("new key", "team.digits", "member")), "");
  EXPECT_EQ(RoleIn("team.digits", MakeToken("another key", "team.digits", "member")), "");
}

TEST(JobTokensTest, ATokenOfTheNamespaceOpensAllOfItsJobs) {
  const std::string team = MakeToken("new key", "team.*", "member");
  for (const char* job : {"team.digits", "team.digits/part", "team.a.b"}) EXPECT_EQ(RoleIn(job, team), "member") << job;
  for (const char* job : {"team", "teams.digits", "tea.m", "digits", "digits/team.x", ".team.x"}) {
    EXPECT_EQ(RoleIn(job, team), "") << job;
  }
  EXPECT_EQ(RoleIn("team.digits", MakeToken("new key", "team.*", "observer", kEndS)), "observer");
}

TEST(JobTokensTest, WithoutADotTheNamespaceIsDefault) {
  const std::string token = MakeToken("old key", "default.*", "member");
  EXPECT_EQ(RoleIn("digits", token), "member");
  EXPECT_EQ(RoleIn("default.digits", token), "member");
  EXPECT_EQ(RoleIn("team.digits", token), "");
  // A job's own token is for it alone, whatever it is called.
  EXPECT_EQ(RoleIn("digits", MakeToken("old key", "default", "member")), "");
}

}  // namespace
}  // namespace farandole
