// What a channel promises when an end closes, is too late, or dies.

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/notification.h"
#include "gtest/gtest.h"
#include "tests/conformance/ends.h"
#include "tests/conformance/media.h"
#include "tests/conformance/outcome.h"

namespace farandole::conformance {
namespace {

constexpr absl::StatusCode kCancelled = absl::StatusCode::kCancelled;
constexpr absl::StatusCode kUnavailable = absl::StatusCode::kUnavailable;
constexpr absl::StatusCode kDeadlineExceeded = absl::StatusCode::kDeadlineExceeded;

class EndingTest : public testing::TestWithParam<Medium> {
 protected:
  // Sends that cannot finish, and receives for which nothing comes, on one end.
  void PostPending(transport::Channel* channel, std::vector<Outcome>* outcomes) {
    for (Outcome& outcome : *outcomes) {
      const uint64_t tag = next_tag_++;
      if (tag % 2 == 0) {
        channel->Send({3, tag}, large_.block(), InMs(60000), outcome.done());
      } else {
        channel->Receive({4, tag}, small_.block(), InMs(60000), outcome.done());
      }
    }
  }

  Bytes large_{16 << 20};
  Bytes small_{8};
  uint64_t next_tag_ = 0;
  Ends ends_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Media, EndingTest, testing::ValuesIn(Media()),
                         [](const auto& info) { return info.param.name; });

// Media in which a send can be done before its receive is posted.
class BufferingEndingTest : public EndingTest {};

std::vector<Medium> BufferingMedia() {
  std::vector<Medium> media = Media();
  media.erase(std::remove_if(media.begin(), media.end(), [](const Medium& medium) { return !medium.buffers; }),
              media.end());
  return media;
}

INSTANTIATE_TEST_SUITE_P(Media, BufferingEndingTest, testing::ValuesIn(BufferingMedia()),
                         [](const auto& info) { return info.param.name; });

TEST_P(EndingTest, CloseEndsWhatIsPendingOnBothEnds) {
  std::vector<Outcome> here(6), there(6);
  PostPending(ends_.a.get(), &here);
  PostPending(ends_.b.get(), &there);
  ends_.a->Close(absl::AbortedError("enough"));
  for (Outcome& outcome : here) EXPECT_EQ(outcome.Wait(), absl::AbortedError("enough"));
  for (Outcome& outcome : there) EXPECT_EQ(outcome.Wait().code(), kUnavailable) << outcome.Wait();
  // The first reason stays, also for what is posted later.
  ends_.a->Close(absl::InternalError("again"));
  Outcome later_send, later_receive, later_there;
  ends_.a->Send({5, 1}, {}, InMs(1000), later_send.done());
  ends_.a->Receive({5, 2}, {}, InMs(1000), later_receive.done());
  ends_.b->Receive({5, 3}, {}, InMs(1000), later_there.done());
  EXPECT_EQ(later_send.Wait(), absl::AbortedError("enough"));
  EXPECT_EQ(later_receive.Wait(), absl::AbortedError("enough"));
  EXPECT_EQ(later_there.Wait().code(), kUnavailable);
  ends_.a.reset();
  ends_.b.reset();
  for (std::vector<Outcome>* outcomes : {&here, &there}) {
    for (Outcome& outcome : *outcomes) EXPECT_EQ(outcome.calls(), 1);
  }
}

TEST_P(EndingTest, CloseWithoutReasonIsCancelled) {
  Outcome received;
  ends_.b->Receive({0, 1}, small_.block(), InMs(60000), received.done());
  ends_.b->Close(absl::OkStatus());
  EXPECT_EQ(received.Wait().code(), kCancelled);
}

TEST_P(EndingTest, TheDestructorReturnsAfterTheLastDone) {
  std::vector<Outcome> here(20), there(20);
  PostPending(ends_.a.get(), &here);
  PostPending(ends_.b.get(), &there);
  ends_.a.reset();
  for (Outcome& outcome : here) {
    EXPECT_EQ(outcome.calls(), 1);
    EXPECT_EQ(outcome.Wait().code(), kCancelled);
  }
  for (Outcome& outcome : there) EXPECT_EQ(outcome.Wait().code(), kUnavailable) << outcome.Wait();
}

TEST_P(EndingTest, BothEndsCloseWhileDataFlows) {
  for (int round = 0; round < 20; ++round) {
    std::unique_ptr<transport::Channel> a, b;
    ends_.Add("flow" + std::to_string(round), &a, &b);
    Bytes in_a(16 << 20), in_b(16 << 20);
    Outcome outcomes[4];
    a->Send({0, 1}, large_.block(), InMs(60000), outcomes[0].done());
    b->Send({0, 2}, large_.block(), InMs(60000), outcomes[1].done());
    a->Receive({0, 2}, in_a.block(), InMs(60000), outcomes[2].done());
    b->Receive({0, 1}, in_b.block(), InMs(60000), outcomes[3].done());
    std::thread other([&b] { b->Close(absl::OkStatus()); });
    a->Close(absl::OkStatus());
    other.join();
    for (Outcome& outcome : outcomes) (void)outcome.Wait();
    a.reset();
    b.reset();
    for (Outcome& outcome : outcomes) EXPECT_EQ(outcome.calls(), 1);
  }
}

TEST_P(EndingTest, CloseFromInsideDone) {
  Bytes out("x"), in(1);
  Outcome sent, received, pending;
  ends_.a->Receive({8, 8}, small_.block(), InMs(60000), pending.done());
  ends_.a->Receive({0, 1}, in.block(), InMs(60000), [this, done = received.done()](absl::Status status) {
    ends_.a->Close(absl::AbortedError("from inside"));
    done(status);
  });
  ends_.b->Send({0, 1}, out.block(), InMs(60000), sent.done());
  EXPECT_TRUE(received.Wait().ok());
  EXPECT_EQ(pending.Wait(), absl::AbortedError("from inside"));
}

TEST_P(EndingTest, AReceiveThatIsNotServedInTimeBreaksTheChannel) {
  Outcome late, other, there, there_later;
  ends_.b->Receive({0, 9}, small_.block(), InMs(60000), there.done());
  ends_.a->Receive({0, 2}, small_.block(), InMs(60000), other.done());
  const TimePoint start = Clock::Monotonic().Now();
  ends_.a->Receive({0, 1}, small_.block(), start.PlusMs(50), late.done());
  EXPECT_EQ(late.Wait().code(), kDeadlineExceeded) << late.Wait();
  EXPECT_GE(Clock::Monotonic().Now().MsSince(start), 50);
  EXPECT_EQ(other.Wait().code(), kDeadlineExceeded);
  EXPECT_EQ(there.Wait().code(), kUnavailable);
  ends_.b->Send({0, 1}, small_.block(), InMs(60000), there_later.done());
  EXPECT_EQ(there_later.Wait().code(), kUnavailable);
}

TEST_P(EndingTest, ASendThatIsNotTakenInTimeBreaksTheChannel) {
  Outcome late;
  ends_.a->Send({0, 1}, large_.block(), InMs(50), late.done());
  EXPECT_EQ(late.Wait().code(), kDeadlineExceeded) << late.Wait();
}

TEST_P(EndingTest, ADeadlineThatHasPassedEndsAtOnce) {
  Outcome late;
  ends_.a->Receive({0, 1}, small_.block(), TimePoint(1), late.done());
  EXPECT_EQ(late.Wait().code(), kDeadlineExceeded);
}

TEST_P(EndingTest, AnEarlierDeadlineBehindALaterOneCounts) {
  Outcome patient, hasty, forever;
  ends_.a->Receive({0, 3}, small_.block(), TimePoint::Infinite(), forever.done());
  ends_.a->Receive({0, 1}, small_.block(), InMs(60000), patient.done());
  ends_.a->Receive({0, 2}, small_.block(), InMs(40), hasty.done());
  EXPECT_EQ(hasty.Wait().code(), kDeadlineExceeded);
}

TEST_P(EndingTest, DeadlinesOfFinishedOperationsDoNoHarm) {
  Bytes out("x"), in(1);
  for (uint64_t i = 0; i < 5; ++i) {
    Outcome sent, received;
    const TimePoint deadline = InMs(i == 0 ? 30 : 10000);
    ends_.b->Receive({0, i}, in.block(), deadline, received.done());
    ends_.a->Send({0, i}, out.block(), deadline, sent.done());
    ASSERT_TRUE(received.Wait().ok());
    ASSERT_TRUE(sent.Wait().ok());
  }
  // The 30 ms of the first pass while this waits for its own 80.
  Outcome late;
  const TimePoint start = Clock::Monotonic().Now();
  ends_.b->Receive({1, 1}, in.block(), start.PlusMs(80), late.done());
  EXPECT_EQ(late.Wait().code(), kDeadlineExceeded);
  EXPECT_GE(Clock::Monotonic().Now().MsSince(start), 80);
}

TEST_P(BufferingEndingTest, WhatWasSentBeforeTheCloseIsStillThere) {
  Bytes one("one"), two("two"), got_one(3), got_two(3);
  Outcome s1, s2, r1, r2, beyond;
  ends_.a->Send({0, 1}, one.block(), InMs(10000), s1.done());
  ends_.a->Send({0, 2}, two.block(), InMs(10000), s2.done());
  ASSERT_TRUE(s1.Wait().ok());
  ASSERT_TRUE(s2.Wait().ok());
  ends_.a.reset();
  ends_.b->Receive({0, 1}, got_one.block(), InMs(10000), r1.done());
  ends_.b->Receive({0, 2}, got_two.block(), InMs(10000), r2.done());
  EXPECT_TRUE(r1.Wait().ok()) << r1.Wait();
  EXPECT_TRUE(r2.Wait().ok()) << r2.Wait();
  EXPECT_EQ(got_one.text() + got_two.text(), "onetwo");
  ends_.b->Receive({0, 3}, got_two.block(), InMs(10000), beyond.done());
  EXPECT_EQ(beyond.Wait().code(), kUnavailable) << beyond.Wait();
}

TEST_P(BufferingEndingTest, APatientReceiveDoesNotSpoilWhatWasSentBeforeTheClose) {
  Bytes out("early"), in(5);
  Outcome sent, patient, fetched;
  ends_.b->Receive({7, 7}, small_.block(), TimePoint::Infinite(), patient.done());
  ends_.a->Send({0, 1}, out.block(), InMs(10000), sent.done());
  ASSERT_TRUE(sent.Wait().ok());
  ends_.a.reset();
  // Longer than the transport waits on behalf of operations that are in a hurry.
  Outcome timer;
  std::unique_ptr<transport::Channel> other_a, other_b;
  ends_.Add("timer", &other_a, &other_b);
  other_a->Receive({0, 1}, small_.block(), InMs(800), timer.done());
  EXPECT_EQ(timer.Wait().code(), kDeadlineExceeded);
  EXPECT_EQ(patient.calls(), 0);
  ends_.b->Receive({0, 1}, in.block(), InMs(10000), fetched.done());
  EXPECT_TRUE(fetched.Wait().ok()) << fetched.Wait();
  EXPECT_EQ(in.text(), "early");
  EXPECT_EQ(patient.Wait().code(), kUnavailable);
}

TEST_P(EndingTest, AFrameThatNobodyFetchesDoesNotHideThatThePeerIsGone) {
  Bytes out("early");
  Outcome sent, waiting;
  ends_.a->Send({0, 1}, out.block(), InMs(10000), sent.done());
  if (GetParam().buffers) {
    ASSERT_TRUE(sent.Wait().ok());
  }
  ends_.b->Receive({0, 2}, small_.block(), InMs(60000), waiting.done());
  ends_.a.reset();
  EXPECT_EQ(waiting.Wait().code(), kUnavailable) << waiting.Wait();
}

}  // namespace
}  // namespace farandole::conformance
