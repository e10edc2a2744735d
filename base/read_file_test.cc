#include "base/read_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>

namespace farandole {
namespace {

TEST(ReadFile, IsAllOfIt) {
  const std::string path = testing::TempDir() + "/text";
  std::ofstream(path) << "a\n\nb";
  EXPECT_EQ(ReadFile(path), "a\n\nb");
  EXPECT_NE(ReadFile("/proc/self/stat"), "");
}

TEST(ReadFile, OfWhatCannotBeReadIsEmpty) {
  EXPECT_EQ(ReadFile(testing::TempDir()), "");
  EXPECT_EQ(ReadFile(testing::TempDir() + "/missing"), "");
}

TEST(ReadRegularFile, OfAnythingElseThereIsNone) {
  const std::string path = testing::TempDir() + "/regular";
  std::ofstream(path) << "a\n";
  EXPECT_EQ(ReadRegularFile(path), "a\n");
  const std::string pipe = testing::TempDir() + "/pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(ReadRegularFile(pipe), absl::nullopt);
  EXPECT_EQ(ReadRegularFile(testing::TempDir()), absl::nullopt);
  EXPECT_EQ(ReadRegularFile(testing::TempDir() + "/missing"), absl::nullopt);
}

}  // namespace
}  // namespace farandole
