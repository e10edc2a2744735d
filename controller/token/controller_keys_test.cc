#include "controller/token/controller_keys.h"

#include <gtest/gtest.h>

#include <string>

namespace farandole::controller::token {
namespace {

std::string Complaint(const std::string& secret) {
  const auto keys = SplitKeys(secret, "the file");
  EXPECT_TRUE(absl::IsInvalidArgument(keys.status())) << secret;
  return std::string(keys.status().message());
}

TEST(ControllerKeysTest, AKeyALineAndTheFirstIsTheNewOne) {
  EXPECT_EQ(*SplitKeys("one", "the file"), ControllerKeys{"one"});
  EXPECT_EQ(*SplitKeys("new \r\nold", "the file"), (ControllerKeys{"new", "old"}));
  EXPECT_EQ(*SplitKeys(" with blanks", "the file"), ControllerKeys{" with blanks"});
}

TEST(ControllerKeysTest, AnythingElseIsNamedWithoutTellingIt) {
  EXPECT_EQ(Complaint("\nold"), "line 1 of the file is empty");
  EXPECT_EQ(Complaint("new\n \nold"), "line 2 of the file is empty");
  EXPECT_EQ(Complaint("a\nb\nc"),
            "the file has more than 2 lines; it holds one key, or a new one with the old one in the line below");
}

}  // namespace
}  // namespace farandole::controller::token
