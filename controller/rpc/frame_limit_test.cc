#include "controller/rpc/frame_limit.h"

#include <algorithm>
#include <string>

#include "gtest/gtest.h"

namespace farandole::controller::rpc {
namespace {

const std::string kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr int kData = 0, kHeaders = 1, kSettings = 4, kContinuation = 9;

// The payload comes up to `sent` bytes only, if that is less.
std::string Frame(int type, int flags, size_t bytes, size_t sent = SIZE_MAX) {
  std::string frame;
  for (const int shift : {16, 8, 0}) frame += static_cast<char>(bytes >> shift & 255);
  frame += static_cast<char>(type);
  frame += static_cast<char>(flags);
  return frame + std::string(4, '\1') + std::string(std::min(bytes, sent), 'x');
}

bool Allowed(const std::string& bytes) {
  FrameLimit whole, single;
  const bool allowed = whole.Allows(bytes);
  // However it is cut.
  bool each = true;
  for (const char c : bytes) each = single.Allows(absl::string_view(&c, 1));
  EXPECT_EQ(each, allowed);
  return allowed;
}

TEST(FrameLimitTest, LetsPassWhatClientsSay) {
  EXPECT_TRUE(Allowed(kPreface.substr(0, 5)));
  std::string said = kPreface + Frame(kSettings, 0, 18) + Frame(kHeaders, 0, 4000);
  said += Frame(kContinuation, 0, 4000) + Frame(kContinuation, 4, FrameLimit::kHeaderBytesMax - 8000);
  for (int i = 0; i < 10; ++i) said += Frame(kData, 1, FrameLimit::kFrameBytesMax) + Frame(kHeaders, 5, 5000);
  EXPECT_TRUE(Allowed(said));
}

TEST(FrameLimitTest, ABlockOfHeadersIsBounded) {
  EXPECT_FALSE(Allowed(kPreface + Frame(kHeaders, 4, FrameLimit::kHeaderBytesMax + 1, 0)));
  EXPECT_FALSE(Allowed(kPreface + Frame(kHeaders, 0, FrameLimit::kHeaderBytesMax) + Frame(kContinuation, 0, 1, 0)));
  std::string small = kPreface + Frame(kHeaders, 0, 1);
  for (size_t i = 0; i < FrameLimit::kHeaderBytesMax; ++i) small += Frame(kContinuation, 0, 1);
  EXPECT_FALSE(Allowed(small));
}

TEST(FrameLimitTest, WhatIsNoHttp2Ends) {
  EXPECT_FALSE(Allowed("GET / HTTP/1.1\r\n"));
  EXPECT_FALSE(Allowed(kPreface + Frame(kData, 0, FrameLimit::kFrameBytesMax + 1, 0)));
  EXPECT_FALSE(Allowed(kPreface + Frame(kContinuation, 4, 1)));
  EXPECT_FALSE(Allowed(kPreface + Frame(kHeaders, 0, 1) + Frame(kHeaders, 4, 1)));
  FrameLimit limit;
  EXPECT_FALSE(limit.Allows("x"));
  EXPECT_FALSE(limit.Allows(kPreface));
}

}  // namespace
}  // namespace farandole::controller::rpc
