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
  const std::string young(32, 'n'), old(40, 'o');
  EXPECT_EQ(*SplitKeys(young + " \r\n" + old, "the file"), (ControllerKeys{young, old}));
  EXPECT_EQ(*SplitKeys(" with blanks", "the file"), ControllerKeys{" with blanks"});
}

TEST(ControllerKeysTest, AnythingElseIsNamedWithoutTellingIt) {
  EXPECT_EQ(Complaint("\nold"), "line 1 of the file is empty");
  EXPECT_EQ(Complaint("new\n \nold"), "line 2 of the file is empty");
  // As base64 wraps what is longer than its lines.
  EXPECT_EQ(Complaint(std::string(64, 'k') + "\nFg=="),
            "line 2 of the file has 4 characters; of two keys each has at least 16");
  EXPECT_EQ(Complaint("a\nb\nc"),
            "the file has more than 2 lines; it holds one key, or a new one with the old one in the line below");
}

}  // namespace
}  // namespace farandole::controller::token
