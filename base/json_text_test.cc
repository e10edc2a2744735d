#include "base/json_text.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

TEST(JsonText, WhatWouldEndTheStringOrTheLineIsEscaped) {
  EXPECT_EQ(JsonString(""), "\"\"");
  EXPECT_EQ(JsonString("a \"b\" \\ c"), R"("a \"b\" \\ c")");
  EXPECT_EQ(JsonString(absl::string_view("\n\x1f\0", 3)), R"("\u000a\u001f\u0000")");
  EXPECT_EQ(JsonString("\xc3\xa9"), "\"\xc3\xa9\"");
}

}  // namespace
}  // namespace farandole
