#include "proto/rules/version_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/version.h"

namespace farandole {
namespace {

using ::testing::HasSubstr;

TEST(VersionCheckTest, MajorAndMinorCount) {
  const std::string own(kVersion);
  const std::string minor = own.substr(0, own.rfind('.'));
  EXPECT_TRUE(CheckVersion("w", own, "the controller").ok());
  EXPECT_TRUE(CheckVersion("w", minor + ".999", "the controller").ok());
  EXPECT_FALSE(CheckVersion("w", "9" + own, "the controller").ok());
  EXPECT_FALSE(CheckVersion("w", minor + "9.0", "the controller").ok());
  EXPECT_FALSE(CheckVersion("w", minor, "the controller").ok());
  EXPECT_FALSE(CheckVersion("w", "", "the controller").ok());
  EXPECT_FALSE(CheckVersion("w", "..", "the controller").ok());
}

TEST(VersionCheckTest, TheErrorNamesBothAndStaysPrintable) {
  const absl::Status status = CheckVersion("the agent on host b", "9.8.\xff", "the controller");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), HasSubstr("the agent on host b has Farandole version \"9.8.\\377\""));
  EXPECT_THAT(std::string(status.message()), HasSubstr(kVersion));
}

}  // namespace
}  // namespace farandole
