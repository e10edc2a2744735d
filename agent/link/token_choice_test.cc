#include "agent/link/token_choice.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::agent::link {
namespace {

using testing::HasSubstr;

class TokenChoiceTest : public testing::Test {
 protected:
  TokenChoiceTest() { Write("first\n"); }
  ~TokenChoiceTest() override { unlink(file_.c_str()); }

  void Write(const std::string& text) {
    const UniqueFd fd(open(file_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    EXPECT_EQ(write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  std::string Chosen() {
    choice_.Choose();
    return choice_.current();
  }

  const std::string file_ = absl::StrCat(testing::TempDir(), "/token-", getpid());
  TokenChoice choice_{"first", file_};
};

TEST_F(TokenChoiceTest, WhatTheFileHoldsNowComesFirst) {
  EXPECT_EQ(Chosen(), "first");
  choice_.Welcomed();
  Write("second");
  EXPECT_EQ(choice_.current(), "first");
  EXPECT_EQ(Chosen(), "second");
}

TEST_F(TokenChoiceTest, ARefusedOneGivesWayToThatOfTheLastWelcome) {
  Write("second");
  EXPECT_EQ(Chosen(), "second");
  choice_.Welcomed();
  Write("third");
  EXPECT_EQ(Chosen(), "third");
  EXPECT_TRUE(choice_.Refused());
  EXPECT_EQ(Chosen(), "second");
  // The new one may be known by the next time.
  choice_.Welcomed();
  EXPECT_EQ(Chosen(), "third");
}

TEST_F(TokenChoiceTest, WhenAllHaveBeenRefusedTheCurrentOneStays) {
  Write("second");
  EXPECT_EQ(Chosen(), "second");
  EXPECT_TRUE(choice_.Refused());
  EXPECT_EQ(Chosen(), "first");
  EXPECT_FALSE(choice_.Refused());
  EXPECT_EQ(Chosen(), "first");
}

TEST_F(TokenChoiceTest, AFileThatGivesNoneIsPassedOver) {
  for (const char* text : {"", "two words"}) {
    Write(text);
    EXPECT_EQ(Chosen(), "first") << text;
    EXPECT_NE(choice_.Fault(), "") << text;
  }
  Write("second");
  ASSERT_EQ(chmod(file_.c_str(), 0644), 0);
  EXPECT_EQ(Chosen(), "first");
  EXPECT_THAT(choice_.Fault(), HasSubstr("mode 0600"));
  ASSERT_EQ(chmod(file_.c_str(), 0600), 0);
  EXPECT_EQ(choice_.Fault(), "");
}

TEST_F(TokenChoiceTest, AFileThatChangesAllTheTimeEnds) {
  size_t tried = 0;
  do {
    Write(absl::StrCat("token-", tried));
    Chosen();
    ++tried;
  } while (choice_.Refused() && tried < 100);
  EXPECT_EQ(tried, TokenChoice::kRefusedMax);
}

TEST(TokenChoiceWithoutFileTest, KeepsTheFirstOne) {
  TokenChoice choice("first", "");
  choice.Choose();
  EXPECT_EQ(choice.current(), "first");
  EXPECT_EQ(choice.Fault(), "");
  EXPECT_FALSE(choice.Refused());
}

}  // namespace
}  // namespace farandole::agent::link
