#include "transport/verbs/send_side.h"

#include "gtest/gtest.h"

namespace farandole::transport::verbs {
namespace {

TEST(SendSideTest, APeerOffersNoMoreReceivesThanItMay) {
  SendSide sends(256);
  MessageHeader header;
  header.bytes = 1000;
  for (size_t i = 0; i < kOfferedMax; ++i) {
    header.id = static_cast<uint16_t>(i);
    ASSERT_TRUE(sends.PeerIsReady(header, Target()).ok());
  }
  EXPECT_TRUE(absl::IsInvalidArgument(sends.PeerIsReady(header, Target())));
  // One that is withdrawn makes room.
  EXPECT_TRUE(sends.PeerCancels(7));
  EXPECT_TRUE(sends.PeerIsReady(header, Target()).ok());
}

}  // namespace
}  // namespace farandole::transport::verbs
