#include "proto/rules/finality.h"

#include "gtest/gtest.h"

namespace farandole {
namespace {

Request On(const char* name, DeviceKind device) {
  Request request{name, {}};
  request.signature.device = device;
  return request;
}

TEST(FinalityTest, OneTensorOnAnAcceleratorIsEnough) {
  EXPECT_EQ(FindFinal({}), nullptr);
  EXPECT_EQ(FindFinal({On("a", DeviceKind::kHost), On("b", DeviceKind::kHost)}), nullptr);
  const std::vector<Request> mixed = {On("a", DeviceKind::kHost), On("b", DeviceKind::kAccelerator)};
  EXPECT_EQ(FindFinal(mixed), &mixed[1]);
}

TEST(FinalityTest, AKindOfMemoryThatANewerReleaseHasIsNotBelievedToGiveAnythingBack) {
  EXPECT_NE(FindFinal({On("a", kUnknownValue<DeviceKind>)}), nullptr);
}

}  // namespace
}  // namespace farandole
