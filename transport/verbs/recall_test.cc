// Withdrawing receives that the peer may write to.

#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "transport/verbs/fake_fabric_testing.h"

namespace farandole::transport::verbs {
namespace {

constexpr size_t kLarge = 4 << 20;

TimePoint InMs(int64_t ms) { return Clock::Monotonic().Now().PlusMs(ms); }

TEST(RecallTest, AReceiveIsCancelledWhenThePeerHasAnswered) {
  FakeFabric fabric;
  auto in = fabric.MakeBuffer(fabric.transport_b.get(), kLarge, 'i');
  auto out = fabric.MakeBuffer(fabric.transport_a.get(), kLarge, 'o');
  Ended ended;
  // The peer hears nothing of it for now: it cannot have answered.
  fabric.fake.hold[0] = true;
  fabric.b->Receive({1, 1}, in->block(), InMs(60000), ended.Expect());
  fabric.b->Discard({2, 0});
  EXPECT_EQ(ended.count(), 0u) << "memory was given back before the peer had given it up";
  fabric.fake.hold[0] = false;
  EXPECT_TRUE(absl::IsCancelled(ended.Wait(0))) << ended.Wait(0);
  in = fabric.MakeBuffer(fabric.transport_b.get(), kLarge, 'i');
  // The stale send is dropped, and the next arrives.
  fabric.a->Send({1, 1}, out->block(), InMs(60000), ended.Expect());
  fabric.b->Receive({2, 0}, in->block(), InMs(60000), ended.Expect());
  fabric.a->Send({2, 0}, out->block(), InMs(60000), ended.Expect());
  EXPECT_TRUE(ended.Wait(1).ok()) << ended.Wait(1);
  EXPECT_TRUE(ended.Wait(2).ok()) << ended.Wait(2);
  EXPECT_TRUE(ended.Wait(3).ok()) << ended.Wait(3);
  EXPECT_EQ(in->bytes, out->bytes);
}

TEST(RecallTest, AWriteThatIsUnderWayEndsFirst) {
  FakeFabric fabric;
  for (uint64_t round = 1; round <= 50; ++round) {
    auto in = fabric.MakeBuffer(fabric.transport_b.get(), kLarge);
    auto out = fabric.MakeBuffer(fabric.transport_a.get(), kLarge, 'o');
    Ended ended;
    fabric.fake.delay_us = round % 2 == 0 ? 2000 : 0;
    fabric.b->Receive({round, 1}, in->block(), TimePoint::Infinite(), ended.Expect());
    fabric.a->Send({round, 1}, out->block(), TimePoint::Infinite(), ended.Expect());
    if (round % 3 == 0) fabric.a->Discard({round, 2});
    fabric.b->Discard({round, 2});
    fabric.a->Discard({round, 2});
    for (const absl::Status& status : ended.Wait()) EXPECT_TRUE(status.ok() || absl::IsCancelled(status)) << status;
    EXPECT_TRUE(ended.Once());
  }
}

TEST(RecallTest, APeerThatDoesNotAnswerBreaksTheChannel) {
  VerbsOptions options;
  options.recall_ms = 50;
  FakeFabric fabric(options);
  auto in = fabric.MakeBuffer(fabric.transport_b.get(), kLarge);
  auto other = fabric.MakeBuffer(fabric.transport_b.get(), kLarge);
  Ended ended;
  fabric.fake.hold[0] = true;
  fabric.b->Receive({1, 1}, in->block(), TimePoint::Infinite(), ended.Expect());
  fabric.b->Receive({3, 1}, other->block(), TimePoint::Infinite(), ended.Expect());
  fabric.b->Discard({2, 0});
  EXPECT_TRUE(absl::IsCancelled(ended.Wait(0))) << ended.Wait(0);
  EXPECT_TRUE(absl::IsUnavailable(ended.Wait(1))) << ended.Wait(1);
  EXPECT_NE(ended.Wait(1).message().find("did not give memory back"), std::string::npos) << ended.Wait(1);
  in.reset();
  other.reset();
  fabric.fake.hold[0] = false;
  EXPECT_TRUE(ended.Once());
}

// What a peer that was told of memory may do with it, when this end is broken.
TEST(RecallTest, MemoryOfABrokenChannelIsNotWritten) {
  FakeFabric fabric;
  auto in = fabric.MakeBuffer(fabric.transport_b.get(), kLarge, 'i');
  auto out = fabric.MakeBuffer(fabric.transport_a.get(), kLarge, 'o');
  Ended ended;
  fabric.b->Receive({1, 1}, in->block(), InMs(60000), ended.Expect());
  fabric.b->Close(absl::OkStatus());
  EXPECT_TRUE(absl::IsCancelled(ended.Wait(0)));
  fabric.a->Send({1, 1}, out->block(), InMs(60000), ended.Expect());
  EXPECT_TRUE(absl::IsUnavailable(ended.Wait(1))) << ended.Wait(1);
  EXPECT_EQ(in->bytes, std::vector<char>(kLarge, 'i'));
}

}  // namespace
}  // namespace farandole::transport::verbs
