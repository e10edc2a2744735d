// What a device can do to a channel: every operation ends once, with a reason, and no memory is lost.

#include <algorithm>
#include <ctime>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "transport/verbs/fake_fabric_testing.h"

namespace farandole::transport::verbs {
namespace {

constexpr size_t kLarge = 1 << 20;

TimePoint InMs(int64_t ms) { return Clock::Monotonic().Now().PlusMs(ms); }

Tag TagOf(uint64_t i) { return {1, i}; }

// Small and large sends and receives on both ends, some of which have their counterpart.
class Traffic {
 public:
  explicit Traffic(FakeFabric* fabric, uint64_t count = 40) {
    for (uint64_t i = 0; i < count; ++i) {
      const size_t bytes = i % 2 == 0 ? 100 : kLarge;
      Channel* const from = i % 4 < 2 ? fabric->a.get() : fabric->b.get();
      Channel* const to = i % 4 < 2 ? fabric->b.get() : fabric->a.get();
      VerbsTransport* const from_transport = i % 4 < 2 ? fabric->transport_a.get() : fabric->transport_b.get();
      VerbsTransport* const to_transport = i % 4 < 2 ? fabric->transport_b.get() : fabric->transport_a.get();
      out_.push_back(fabric->MakeBuffer(from_transport, bytes, static_cast<char>(i)));
      in_.push_back(fabric->MakeBuffer(to_transport, bytes, -1));
      to->Receive(TagOf(i), in_.back()->block(), InMs(60000), ended.Expect());
      from->Send(TagOf(i), out_.back()->block(), InMs(60000), ended.Expect());
    }
  }
  // What is reported as received is there.
  void ExpectContents(const std::vector<absl::Status>& statuses) {
    for (size_t i = 0; i < in_.size(); ++i) {
      if (statuses[2 * i].ok()) {
        EXPECT_EQ(in_[i]->bytes, out_[i]->bytes) << i;
      }
    }
  }
  // Memory goes as soon as an operation has ended: the fake knows what the device may access still.
  void GiveBack() {
    out_.clear();
    in_.clear();
  }

  Ended ended;

 private:
  std::vector<std::unique_ptr<FakeFabric::Buffer>> out_, in_;
};

struct Fault {
  const char* name;
  ibv_wc_status status;
  const char* text;
};

class CompletionErrorTest : public testing::TestWithParam<Fault> {};

INSTANTIATE_TEST_SUITE_P(Statuses, CompletionErrorTest,
                         testing::Values(Fault{"Retries", IBV_WC_RETRY_EXC_ERR, "transport retry counter exceeded"},
                                         Fault{"Access", IBV_WC_REM_ACCESS_ERR, "remote access error"},
                                         Fault{"Flush", IBV_WC_WR_FLUSH_ERR, "Work Request Flushed Error"}),
                         [](const auto& info) { return info.param.name; });

TEST_P(CompletionErrorTest, EndsEverythingOnceWithTheReason) {
  for (const int after : {0, 1, 7, 15, 20}) {
    SCOPED_TRACE(after);
    FakeFabric fabric;
    Ended patient;
    fabric.a->Receive({9, 9}, {}, InMs(60000), patient.Expect());
    fabric.fake.fail_status[0] = GetParam().status;
    fabric.fake.fail_after[0] = after;
    Traffic traffic(&fabric);
    const std::vector<absl::Status> statuses = traffic.ended.Wait();
    for (const absl::Status& status : statuses) EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
    traffic.ExpectContents(statuses);
    const absl::Status reason = patient.Wait(0);
    EXPECT_TRUE(absl::IsUnavailable(reason)) << reason;
    EXPECT_NE(reason.message().find("channel to other: "), std::string::npos) << reason;
    EXPECT_NE(reason.message().find(GetParam().text), std::string::npos) << reason;
    traffic.GiveBack();
    EXPECT_TRUE(traffic.ended.Once() && patient.Once());
  }
}

TEST(FaultsTest, LateCompletionsLoseNothing) {
  FakeFabric fabric;
  fabric.fake.delay_us = 3000;
  Traffic traffic(&fabric, 400);
  const std::vector<absl::Status> statuses = traffic.ended.Wait();
  for (const absl::Status& status : statuses) ASSERT_TRUE(status.ok()) << status;
  traffic.ExpectContents(statuses);
}

// Each operation gives its memory back as soon as it has ended: the fake knows what the device may access still.
TEST(FaultsTest, AClosedChannelWaitsForItsDeviceBeforeMemoryIsGivenBack) {
  for (int round = 0; round < 10; ++round) {
    FakeFabric fabric;
    Ended ended;
    const auto giving_back = [&](VerbsTransport* transport, Block* block) {
      std::shared_ptr<FakeFabric::Buffer> buffer = fabric.MakeBuffer(transport, 16 * kLarge);
      *block = buffer->block();
      return [buffer = std::move(buffer), done = ended.Expect()](absl::Status status) mutable {
        buffer.reset();
        done(status);
      };
    };
    for (uint64_t i = 0; i < 4; ++i) {
      Block block;
      auto received = giving_back(fabric.transport_b.get(), &block);
      fabric.b->Receive(TagOf(i), block, InMs(60000), std::move(received));
      auto sent = giving_back(fabric.transport_a.get(), &block);
      fabric.a->Send(TagOf(i), block, InMs(60000), std::move(sent));
    }
    (round % 2 == 0 ? fabric.a : fabric.b)->Close(absl::AbortedError("enough"));
    for (const absl::Status& status : ended.Wait()) {
      EXPECT_TRUE(status.ok() || absl::IsUnavailable(status) || absl::IsAborted(status)) << status;
    }
    EXPECT_TRUE(ended.Once());
  }
}

// The device at the receiving end tells later than the socket that there is something.
TEST(FaultsTest, WhatWasReportedAsSentArrivesThoughTheSenderCloses) {
  for (const size_t bytes : {size_t{100}, kLarge}) {
    FakeFabric fabric;
    Ended received, probe;
    auto in = fabric.MakeBuffer(fabric.transport_b.get(), bytes);
    auto out = fabric.MakeBuffer(fabric.transport_a.get(), bytes, 'o');
    fabric.b->Receive(TagOf(1), in->block(), InMs(60000), received.Expect());
    fabric.b->Send(TagOf(0), {}, InMs(60000), probe.Expect());
    fabric.a->Receive(TagOf(0), {}, InMs(60000), probe.Expect());
    for (const absl::Status& status : probe.Wait()) ASSERT_TRUE(status.ok()) << status;
    fabric.fake.hold[1] = true;
    Ended sent;
    fabric.a->Send(TagOf(1), out->block(), InMs(60000), sent.Expect());
    ASSERT_TRUE(sent.Wait(0).ok()) << sent.Wait(0);
    fabric.a.reset();
    // The goodbye is in the socket: what comes back from the loop next has seen it.
    for (int turn = 0; turn < 2; ++turn) {
      absl::Notification turned;
      fabric.transport_b->Accept({}, InMs(0),
                                 [&](const absl::StatusOr<std::unique_ptr<Channel>>&) { turned.Notify(); });
      turned.WaitForNotification();
    }
    fabric.fake.hold[1] = false;
    EXPECT_TRUE(received.Wait(0).ok()) << received.Wait(0);
    EXPECT_EQ(in->bytes, out->bytes);
  }
}

TEST(FaultsTest, ADeviceThatCompletesNothingMoreDelaysAnEndByABound) {
  FakeFabric fabric;
  fabric.fake.hold[0] = fabric.fake.hold[1] = true;
  Traffic traffic(&fabric);
  const TimePoint start = InMs(0);
  fabric.a->Close(absl::AbortedError("enough"));
  traffic.ended.Wait();
  EXPECT_LT(InMs(0).MsSince(start), 10000);
  EXPECT_TRUE(traffic.ended.Once());
  traffic.GiveBack();
}

TEST(FaultsTest, ADeviceThatIsGoneEndsItsChannels) {
  FakeFabric fabric;
  Traffic traffic(&fabric);
  fabric.fake.removed[0] = true;
  for (const absl::Status& status : traffic.ended.Wait()) {
    EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
  }
  EXPECT_TRUE(traffic.ended.Once());
  Ended later;
  fabric.a->Receive({9, 9}, {}, InMs(60000), later.Expect());
  const absl::Status status = later.Wait(0);
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_NE(status.message().find("fake0 has failed (local catastrophic error)"), std::string::npos) << status;
  traffic.GiveBack();
}

TEST(FaultsTest, ADeviceThatIsGoneKeepsNobodyBusy) {
  FakeFabric fabric;
  fabric.fake.removed[0] = true;
  Ended ended;
  fabric.a->Receive({9, 9}, {}, InMs(60000), ended.Expect());
  ended.Wait();
  const std::clock_t before = std::clock();
  absl::Notification never;
  never.WaitForNotificationWithTimeout(absl::Milliseconds(400));
  EXPECT_LT((std::clock() - before) * 1000 / CLOCKS_PER_SEC, 200);
}

TEST(FaultsTest, AQueueThatIsFullEarlierThanItShouldBeIsTriedAgain) {
  FakeFabric fabric;
  auto out = fabric.MakeBuffer(fabric.transport_a.get(), 3 * kLarge, 'x');
  auto in = fabric.MakeBuffer(fabric.transport_b.get(), 3 * kLarge);
  Ended ended, probe;
  for (uint64_t i = 0; i < 3; ++i) {
    fabric.b->Receive(TagOf(i), {in->memory.get(), i * kLarge, kLarge}, InMs(60000), ended.Expect());
  }
  // The first may overtake what tells of the receives, the second is behind it.
  for (uint64_t i = 0; i < 2; ++i) {
    fabric.a->Receive({0, i}, {}, InMs(60000), probe.Expect());
    fabric.b->Send({0, i}, {}, InMs(60000), probe.Expect());
    for (const absl::Status& status : probe.Wait()) ASSERT_TRUE(status.ok()) << status;
  }
  fabric.fake.hold[0] = true;
  const int64_t before = fabric.fake.sends;
  const auto send = [&](uint64_t i) {
    fabric.a->Send(TagOf(i), {out->memory.get(), i * kLarge, kLarge}, InMs(60000), ended.Expect());
  };
  send(0);
  const TimePoint end = InMs(20000);
  while (fabric.fake.sends == before && InMs(0) < end) std::this_thread::yield();
  fabric.fake.refuse[0] = 1;
  send(1);
  send(2);
  while (fabric.fake.refuse[0] > 0 && InMs(0) < end) std::this_thread::yield();
  EXPECT_EQ(fabric.fake.sends, before + 1);
  fabric.fake.hold[0] = false;
  for (const absl::Status& status : ended.Wait()) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(in->bytes, out->bytes);
}

// A slow receiver: frames wait in its buffers and at the sender, and arrive whole and in order.
TEST(FaultsTest, ThousandsOfSendsWaitForAReceiverWithoutOverrun) {
  constexpr uint64_t kCount = 4000;
  FakeFabric fabric;
  fabric.fake.delay_us = 200;
  auto out = fabric.MakeBuffer(fabric.transport_a.get(), 8000, 's');
  auto in = fabric.MakeBuffer(fabric.transport_b.get(), 8000);
  Ended sent, received;
  for (uint64_t i = 0; i < kCount; ++i) {
    fabric.a->Send(TagOf(i), {out->memory.get(), 0, i * 7919 % 8000}, InMs(60000), sent.Expect());
  }
  EXPECT_LT(sent.count(), kCount / 2) << "they went somewhere without a receive";
  for (uint64_t i = 0; i < kCount; ++i) {
    fabric.b->Receive(TagOf(i), {in->memory.get(), 0, i * 7919 % 8000}, InMs(60000), received.Expect());
  }
  for (const absl::Status& status : received.Wait()) ASSERT_TRUE(status.ok()) << status;
  for (const absl::Status& status : sent.Wait()) ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(sent.Once() && received.Once());
}

TEST(FaultsTest, ManyCompletionsComeAtOnceWithoutOverrun) {
  FakeFabric fabric;
  fabric.fake.hold[1] = true;
  auto out = fabric.MakeBuffer(fabric.transport_a.get(), 9000, 's');
  auto in = fabric.MakeBuffer(fabric.transport_b.get(), 9010);
  Ended ended;
  for (uint64_t i = 0; i < 2000; ++i) {
    const size_t bytes = i % 3 == 0 ? 9000 : 10;
    fabric.b->Receive(TagOf(i), {in->memory.get(), bytes == 10 ? size_t{9000} : 0, bytes}, InMs(60000), ended.Expect());
    fabric.a->Send(TagOf(i), {out->memory.get(), 0, bytes}, InMs(60000), ended.Expect());
  }
  fabric.fake.hold[1] = false;
  for (const absl::Status& status : ended.Wait()) ASSERT_TRUE(status.ok()) << status;
}

}  // namespace
}  // namespace farandole::transport::verbs
