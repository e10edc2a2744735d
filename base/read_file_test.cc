#include "base/read_file.h"

#include <gtest/gtest.h>

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

}  // namespace
}  // namespace farandole
