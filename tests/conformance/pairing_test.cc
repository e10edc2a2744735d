// How two ends find each other, and who is kept out.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/conformance/ends.h"
#include "tests/conformance/media.h"
#include "tests/conformance/outcome.h"

namespace farandole::conformance {
namespace {

class PairingTest : public testing::TestWithParam<Medium> {
 protected:
  PairingTest() : a_(GetParam().make()), b_(GetParam().make()), address_(b_->Listen().value_or("")) {}

  // The Accept that is being disturbed goes through in the end.
  void ExpectMeets(Meeting* accept) {
    EXPECT_FALSE(accept->over());
    Meeting connect;
    connect.Connect(a_.get(), address_, {"job/1", "1", "0", "key"}, InMs(10000));
    absl::StatusOr<std::unique_ptr<transport::Channel>> one = connect.Wait();
    absl::StatusOr<std::unique_ptr<transport::Channel>> other = accept->Wait();
    ASSERT_TRUE(one.ok()) << one.status();
    ASSERT_TRUE(other.ok()) << other.status();
    Bytes out("hello"), in(5);
    Outcome sent, received;
    (*other)->Receive({0, 1}, in.block(), InMs(10000), received.done());
    (*one)->Send({0, 1}, out.block(), InMs(10000), sent.done());
    EXPECT_TRUE(received.Wait().ok()) << received.Wait();
    EXPECT_EQ(in.text(), "hello");
  }

  absl::StatusCode ConnectCode(const transport::Pairing& pairing, int64_t ms) {
    Meeting connect;
    connect.Connect(a_.get(), address_, pairing, InMs(ms));
    return connect.Wait().status().code();
  }

  std::unique_ptr<transport::Transport> a_, b_;
  std::string address_;
  const transport::Pairing accepting_{"job/1", "0", "1", "key"};
};

INSTANTIATE_TEST_SUITE_P(Media, PairingTest, testing::ValuesIn(Media()),
                         [](const auto& info) { return info.param.name; });

TEST_P(PairingTest, IsUsableAndKeepsItsAddress) {
  EXPECT_TRUE(a_->Usable().ok()) << a_->Usable();
  EXPECT_FALSE(address_.empty());
  EXPECT_EQ(b_->Listen().value_or(""), address_);
}

TEST_P(PairingTest, AcceptMayComeAfterConnect) {
  Meeting connect, accept;
  connect.Connect(a_.get(), address_, {"job/1", "1", "0", "key"}, InMs(10000));
  Meeting probe;  // runs into its deadline while the first one waits
  probe.Connect(a_.get(), address_, {"job/1", "2", "0", "key"}, InMs(60));
  EXPECT_FALSE(probe.Wait().ok());
  EXPECT_FALSE(connect.over());
  accept.Accept(b_.get(), accepting_, InMs(10000));
  EXPECT_TRUE(accept.Wait().ok());
  EXPECT_TRUE(connect.Wait().ok());
}

TEST_P(PairingTest, WrongKey) {
  Meeting accept;
  accept.Accept(b_.get(), accepting_, InMs(20000));
  EXPECT_EQ(ConnectCode({"job/1", "1", "0", "kez"}, 10000), absl::StatusCode::kUnauthenticated);
  ExpectMeets(&accept);
}

TEST_P(PairingTest, WrongGeneration) {
  Meeting accept;
  accept.Accept(b_.get(), accepting_, InMs(20000));
  EXPECT_EQ(ConnectCode({"job/2", "1", "0", "key"}, 150), absl::StatusCode::kFailedPrecondition);
  ExpectMeets(&accept);
}

TEST_P(PairingTest, WrongIdentity) {
  Meeting accept;
  accept.Accept(b_.get(), accepting_, InMs(20000));
  EXPECT_EQ(ConnectCode({"job/1", "2", "0", "key"}, 150), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(ConnectCode({"job/1", "1", "3", "key"}, 150), absl::StatusCode::kFailedPrecondition);
  ExpectMeets(&accept);
}

TEST_P(PairingTest, NobodyListens) {
  address_ = GetParam().make()->Listen().value_or("");
  EXPECT_EQ(ConnectCode({"job/1", "1", "0", "key"}, 150), absl::StatusCode::kUnavailable);
}

TEST_P(PairingTest, AcceptEndsAtItsDeadline) {
  Meeting accept;
  accept.Accept(b_.get(), accepting_, InMs(50));
  EXPECT_EQ(accept.Wait().status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_P(PairingTest, BadPairingsAreRefused) {
  EXPECT_EQ(ConnectCode({"job/1", "1", "0", ""}, 1000), absl::StatusCode::kInvalidArgument);
  Meeting accept;
  accept.Accept(b_.get(), {std::string(10000, 'x'), "0", "1", "key"}, InMs(1000));
  EXPECT_EQ(accept.Wait().status().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(PairingTest, DestroyingTheTransportCancelsEachOnce) {
  std::vector<Meeting> meetings(20);
  for (size_t i = 0; i < meetings.size(); ++i) {
    const std::string id = std::to_string(i);
    if (i % 2 == 0) {
      meetings[i].Accept(b_.get(), {"job/1", "0", id, "key"}, InMs(60000));
    } else {
      meetings[i].Connect(b_.get(), a_->Listen().value_or(""), {"job/1", id, "0", "key"}, TimePoint::Infinite());
    }
  }
  b_.reset();
  for (Meeting& meeting : meetings) {
    EXPECT_EQ(meeting.calls(), 1);
    EXPECT_EQ(meeting.Wait().status().code(), absl::StatusCode::kCancelled);
  }
}

TEST_P(PairingTest, ManyMeetAtOnce) {
  constexpr int kCount = 200;
  std::vector<Meeting> connects(kCount), accepts(kCount);
  for (int i = 0; i < kCount; ++i) {
    const std::string id = std::to_string(i);
    connects[i].Connect(a_.get(), address_, {"job/1", id, "0", "key"}, InMs(15000));
  }
  for (int i = kCount - 1; i >= 0; --i) {
    accepts[i].Accept(b_.get(), {"job/1", "0", std::to_string(i), "key"}, InMs(15000));
  }
  for (int i = 0; i < kCount; ++i) {
    absl::StatusOr<std::unique_ptr<transport::Channel>> one = connects[i].Wait();
    absl::StatusOr<std::unique_ptr<transport::Channel>> other = accepts[i].Wait();
    EXPECT_TRUE(one.ok()) << one.status();
    EXPECT_TRUE(other.ok()) << other.status();
  }
}

}  // namespace
}  // namespace farandole::conformance
