#include "transport/layers/sealed_channel.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "transport/inproc/transport.h"
#include "transport/unregistered_testing.h"

namespace farandole::transport::layers {
namespace {

const Pairing kPairing{"job/1", "0", "1", "secret"};

Pairing Other(const Pairing& pairing) { return {pairing.domain, pairing.peer_id, pairing.self_id, pairing.key}; }

// Two ends of a channel of which a test seals what it likes.
class SealedChannelTest : public testing::Test {
 protected:
  SealedChannelTest() {
    const std::string address = *b_.Listen();
    absl::Notification a_ready, b_ready;
    b_.Accept(Other(kPairing), TimePoint::Infinite(), [&](absl::StatusOr<std::unique_ptr<Channel>> channel) {
      b_end_ = *std::move(channel);
      b_ready.Notify();
    });
    a_.Connect(address, kPairing, TimePoint::Infinite(), [&](absl::StatusOr<std::unique_ptr<Channel>> channel) {
      a_end_ = *std::move(channel);
      a_ready.Notify();
    });
    a_ready.WaitForNotification();
    b_ready.WaitForNotification();
  }

  std::unique_ptr<Channel> Sealed(std::unique_ptr<Channel> end, const Pairing& pairing) {
    return std::make_unique<SealedChannel>(&a_, std::move(end), MakeSealKeys(pairing));
  }

  // What a receive of `to` ends with when `from` sends `sent` under the tag.
  absl::Status Pass(Channel* from, Channel* to, std::string sent, std::string* received, Tag tag = {1, 2}) {
    const auto sent_memory = UnregisteredTesting::Make(&sent[0], sent.size());
    const auto received_memory = UnregisteredTesting::Make(&(*received)[0], received->size());
    absl::Notification sent_done, received_done;
    absl::Status result;
    to->Receive(tag, {received_memory.get(), 0, received->size()}, TimePoint::Infinite(), [&](absl::Status status) {
      result = status;
      received_done.Notify();
    });
    from->Send(tag, {sent_memory.get(), 0, sent.size()}, TimePoint::Infinite(),
               [&](absl::Status) { sent_done.Notify(); });
    sent_done.WaitForNotification();
    received_done.WaitForNotification();
    return result;
  }

  inproc::InprocTransport a_, b_;
  std::unique_ptr<Channel> a_end_, b_end_;
};

TEST_F(SealedChannelTest, WhatIsOnTheWayIsNeitherTheTextNorTwiceTheSame) {
  a_end_ = Sealed(std::move(a_end_), kPairing);
  const std::string text(1000, 'x');
  std::string wire[2];
  for (std::string& seen : wire) {
    seen.resize(text.size() + 40);
    ASSERT_TRUE(Pass(a_end_.get(), b_end_.get(), text, &seen).ok());
    EXPECT_EQ(seen.find("xxxx"), std::string::npos);
  }
  EXPECT_NE(wire[0].substr(24), wire[1].substr(24));
}

TEST_F(SealedChannelTest, BothDirectionsAreOpened) {
  a_end_ = Sealed(std::move(a_end_), kPairing);
  b_end_ = Sealed(std::move(b_end_), Other(kPairing));
  for (const size_t bytes : {0, 1, 1000, 300000}) {
    const std::string text(bytes, 'y');
    std::string there(bytes, '?'), back(bytes, '?');
    EXPECT_TRUE(Pass(a_end_.get(), b_end_.get(), text, &there).ok());
    EXPECT_TRUE(Pass(b_end_.get(), a_end_.get(), text, &back).ok());
    EXPECT_EQ(there, text);
    EXPECT_EQ(back, text);
  }
}

// A message as the first end has sealed it under the tag 1/2.
std::string SealedMessage(const std::string& text) {
  class Recorder final : public Channel {
   public:
    explicit Recorder(std::string* wire) : wire_(wire) {}
    void Send(Tag, Block block, TimePoint, Done) override {
      wire_->assign(block.memory->data() + block.offset, block.bytes);
    }
    void Receive(Tag, Block, TimePoint, Done) override {}
    void Discard(Tag) override {}
    void Close(absl::Status) override {}

   private:
    std::string* const wire_;
  };
  std::string wire, plain = text;
  const auto memory = UnregisteredTesting::Make(&plain[0], plain.size());
  inproc::InprocTransport transport;
  SealedChannel channel(&transport, std::make_unique<Recorder>(&wire), MakeSealKeys(kPairing));
  channel.Send({1, 2}, {memory.get(), 0, plain.size()}, TimePoint::Infinite(), [](absl::Status) {});
  return wire;
}

TEST_F(SealedChannelTest, WhatTheOtherEndHasSealedForTheTagIsTaken) {
  b_end_ = Sealed(std::move(b_end_), Other(kPairing));
  std::string received(100, '?');
  EXPECT_TRUE(Pass(a_end_.get(), b_end_.get(), SealedMessage(std::string(100, 'z')), &received).ok());
  EXPECT_EQ(received, std::string(100, 'z'));
}

TEST_F(SealedChannelTest, WhatIsChangedBreaksTheChannel) {
  b_end_ = Sealed(std::move(b_end_), Other(kPairing));
  std::string wire = SealedMessage(std::string(100, 'z'));
  wire[50] ^= 1;
  std::string received(100, '?');
  EXPECT_EQ(Pass(a_end_.get(), b_end_.get(), wire, &received).code(), absl::StatusCode::kUnauthenticated);
  EXPECT_EQ(received.find('z'), std::string::npos);
  EXPECT_FALSE(Pass(a_end_.get(), b_end_.get(), SealedMessage(std::string(100, 'z')), &received).ok());
}

// What a sender leaves that has discarded a message while it was on its way.
TEST_F(SealedChannelTest, WhatIsDiscardedOnItsWayIsNoForgery) {
  b_end_ = Sealed(std::move(b_end_), Other(kPairing));
  std::string wire = SealedMessage(std::string(100, 'z')), received(100, '?');
  std::fill(wire.begin() + 60, wire.end(), '\0');
  const auto sent_memory = UnregisteredTesting::Make(&wire[0], wire.size());
  const auto received_memory = UnregisteredTesting::Make(&received[0], received.size());
  absl::Notification sent, ended;
  absl::Status status;
  b_end_->Receive({1, 2}, {received_memory.get(), 0, received.size()}, TimePoint::Infinite(), [&](absl::Status s) {
    status = s;
    ended.Notify();
  });
  a_end_->Send({1, 2}, {sent_memory.get(), 0, wire.size()}, TimePoint::Infinite(),
               [&](absl::Status) { sent.Notify(); });
  sent.WaitForNotification();
  b_end_->Discard({1, 3});
  ended.WaitForNotification();
  EXPECT_TRUE(absl::IsCancelled(status)) << status;
  EXPECT_EQ(received.find('z'), std::string::npos);
  a_end_ = Sealed(std::move(a_end_), kPairing);
  EXPECT_TRUE(Pass(a_end_.get(), b_end_.get(), std::string(100, 'y'), &received, {1, 4}).ok());
}

TEST_F(SealedChannelTest, WhatBelongsToAnotherTagIsRefused) {
  b_end_ = Sealed(std::move(b_end_), Other(kPairing));
  std::string received(100, '?');
  EXPECT_EQ(Pass(a_end_.get(), b_end_.get(), SealedMessage(std::string(100, 'z')), &received, {1, 3}).code(),
            absl::StatusCode::kUnauthenticated);
}

TEST(SealKeysTest, DifferInDirectionDomainAndSecret) {
  const SealKeys keys = MakeSealKeys(kPairing), other_end = MakeSealKeys(Other(kPairing));
  EXPECT_EQ(keys.send, other_end.receive);
  EXPECT_EQ(keys.receive, other_end.send);
  EXPECT_NE(keys.send, keys.receive);
  EXPECT_NE(keys.send, MakeSealKeys({"job/2", "0", "1", "secret"}).send);
  EXPECT_NE(keys.send, MakeSealKeys({"job/1", "0", "1", "another"}).send);
  EXPECT_NE(keys.send, MakeSealKeys({"job/1", "0", "2", "secret"}).send);
}

}  // namespace
}  // namespace farandole::transport::layers
