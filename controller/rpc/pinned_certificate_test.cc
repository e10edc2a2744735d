#include "controller/rpc/pinned_certificate.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::rpc {
namespace {

using ::testing::StartsWith;

TEST(PinnedCertificateTest, FollowsFromTheKeyAlone) {
  const auto one = MakePinnedCertificate("key"), again = MakePinnedCertificate("key");
  ASSERT_TRUE(one.ok() && again.ok()) << one.status();
  EXPECT_EQ(one->certificate, again->certificate);
  EXPECT_EQ(one->private_key, again->private_key);
  EXPECT_THAT(one->certificate, StartsWith("-----BEGIN CERTIFICATE-----"));
  EXPECT_THAT(one->private_key, StartsWith("-----BEGIN PRIVATE KEY-----"));
  const auto other = MakePinnedCertificate("another");
  ASSERT_TRUE(other.ok());
  EXPECT_NE(one->certificate, other->certificate);
  EXPECT_NE(one->private_key, other->private_key);
}

}  // namespace
}  // namespace farandole::controller::rpc
