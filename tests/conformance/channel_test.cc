// What a channel promises while both ends live.

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "gtest/gtest.h"
#include "tests/conformance/ends.h"
#include "tests/conformance/media.h"
#include "tests/conformance/outcome.h"

namespace farandole::conformance {
namespace {

class ChannelTest : public testing::TestWithParam<Medium> {
 protected:
  Ends ends_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Media, ChannelTest, testing::ValuesIn(Media()),
                         [](const auto& info) { return info.param.name; });

TEST_P(ChannelTest, CarriesBytesInBothDirections) {
  Bytes ping("ping"), pong("pongpong"), got_ping(4), got_pong(8);
  Outcome s1, s2, r1, r2;
  ends_.b->Receive({1, 1}, got_ping.block(), InMs(5000), r1.done());
  ends_.a->Receive({1, 2}, got_pong.block(), InMs(5000), r2.done());
  ends_.a->Send({1, 1}, ping.block(), InMs(5000), s1.done());
  ends_.b->Send({1, 2}, pong.block(), InMs(5000), s2.done());
  for (Outcome* outcome : {&s1, &s2, &r1, &r2}) EXPECT_TRUE(outcome->Wait().ok()) << outcome->Wait();
  EXPECT_EQ(got_ping.text(), "ping");
  EXPECT_EQ(got_pong.text(), "pongpong");
}

TEST_P(ChannelTest, KeepsOrderAmongManyAndReportsEachOnce) {
  constexpr int kCount = 500;
  std::vector<std::unique_ptr<Bytes>> out, in;
  std::vector<Outcome> sent(kCount), received(kCount);
  absl::Mutex mutex;
  std::vector<int> order;
  for (int i = 0; i < kCount; ++i) {
    out.push_back(std::make_unique<Bytes>(Bytes::Pattern(i * 37 % 5000, i)));
    in.push_back(std::make_unique<Bytes>(out.back()->text().size()));
  }
  for (int i = 0; i < kCount; ++i) {
    ends_.b->Receive({7, static_cast<uint64_t>(i)}, in[i]->block(), InMs(15000),
                     [&, i, done = received[i].done()](absl::Status status) {
                       {
                         absl::MutexLock lock(&mutex);
                         order.push_back(i);
                       }
                       done(status);
                     });
    ends_.a->Send({7, static_cast<uint64_t>(i)}, out[i]->block(), InMs(15000), sent[i].done());
  }
  for (int i = 0; i < kCount; ++i) {
    ASSERT_TRUE(sent[i].Wait().ok()) << sent[i].Wait();
    ASSERT_TRUE(received[i].Wait().ok()) << received[i].Wait();
    EXPECT_EQ(in[i]->text(), out[i]->text()) << i;
  }
  ends_.a.reset();
  ends_.b.reset();
  for (int i = 0; i < kCount; ++i) {
    EXPECT_EQ(sent[i].calls(), 1);
    EXPECT_EQ(received[i].calls(), 1);
    EXPECT_EQ(order[i], i);
  }
}

TEST_P(ChannelTest, HoldsBackWhatComesEarly) {
  Bytes first("first"), second("second"), got_first(5), got_second(6);
  Outcome s1, s2, r1, r2;
  ends_.a->Send({0, 1}, first.block(), InMs(10000), s1.done());
  ends_.a->Send({0, 2}, second.block(), InMs(10000), s2.done());
  // Posted in the other order: the second frame waits behind the first one.
  ends_.b->Receive({0, 2}, got_second.block(), InMs(10000), r2.done());
  Bytes probe("x"), got_probe(1);
  Outcome probe_sent, probe_received;
  ends_.a->Receive({9, 9}, got_probe.block(), InMs(10000), probe_received.done());
  ends_.b->Send({9, 9}, probe.block(), InMs(10000), probe_sent.done());
  ASSERT_TRUE(probe_received.Wait().ok());
  EXPECT_EQ(r2.calls(), 0);
  ends_.b->Receive({0, 1}, got_first.block(), InMs(10000), r1.done());
  for (Outcome* outcome : {&s1, &s2, &r1, &r2}) ASSERT_TRUE(outcome->Wait().ok()) << outcome->Wait();
  EXPECT_EQ(got_first.text(), "first");
  EXPECT_EQ(got_second.text(), "second");
}

TEST_P(ChannelTest, FlowControlHoldsALargeEarlyFrame) {
  constexpr size_t kBytes = 32 << 20;
  Bytes out(Bytes::Pattern(kBytes, 3)), in(kBytes);
  Outcome sent, received;
  ends_.a->Send({0, 1}, out.block(), InMs(15000), sent.done());
  Bytes probe("x"), got_probe(1);
  Outcome probe_sent, probe_received;
  ends_.a->Receive({9, 9}, got_probe.block(), InMs(10000), probe_received.done());
  ends_.b->Send({9, 9}, probe.block(), InMs(10000), probe_sent.done());
  ASSERT_TRUE(probe_received.Wait().ok());
  EXPECT_EQ(sent.calls(), 0) << "32 MiB went somewhere without a receive";
  ends_.b->Receive({0, 1}, in.block(), InMs(15000), received.done());
  ASSERT_TRUE(received.Wait().ok()) << received.Wait();
  ASSERT_TRUE(sent.Wait().ok()) << sent.Wait();
  EXPECT_TRUE(in.text() == out.text());
}

TEST_P(ChannelTest, LargeInBothDirectionsAtOnce) {
  constexpr size_t kBytes = 64 << 20;
  Bytes out_a(Bytes::Pattern(kBytes, 1)), out_b(Bytes::Pattern(kBytes, 2)), in_a(kBytes), in_b(kBytes);
  Outcome s1, s2, r1, r2;
  ends_.a->Send({0, 1}, out_a.block(), InMs(20000), s1.done());
  ends_.b->Send({0, 2}, out_b.block(), InMs(20000), s2.done());
  ends_.a->Receive({0, 2}, in_a.block(), InMs(20000), r1.done());
  ends_.b->Receive({0, 1}, in_b.block(), InMs(20000), r2.done());
  for (Outcome* outcome : {&s1, &s2, &r1, &r2}) ASSERT_TRUE(outcome->Wait().ok()) << outcome->Wait();
  EXPECT_TRUE(in_b.text() == out_a.text());
  EXPECT_TRUE(in_a.text() == out_b.text());
}

TEST_P(ChannelTest, ZeroBytesAreAMessage) {
  Outcome s1, s2, r1, r2;
  Bytes out("!"), in(1);
  ends_.b->Receive({0, 1}, {}, InMs(5000), r1.done());
  ends_.a->Send({0, 1}, {}, InMs(5000), s1.done());
  ASSERT_TRUE(r1.Wait().ok()) << r1.Wait();
  ends_.a->Send({0, 2}, {}, InMs(5000), s1.done());
  ends_.a->Send({0, 3}, out.block(), InMs(5000), s2.done());
  ends_.b->Receive({0, 2}, {}, InMs(5000), r1.done());
  ends_.b->Receive({0, 3}, in.block(), InMs(5000), r2.done());
  ASSERT_TRUE(r2.Wait().ok()) << r2.Wait();
  EXPECT_EQ(in.text(), "!");
}

TEST_P(ChannelTest, PartsOfOneMemory) {
  Bytes out("abcdefgh"), in(8, '.');
  Outcome s1, s2, r1, r2;
  ends_.a->Send({0, 1}, out.part(0, 3), InMs(5000), s1.done());
  ends_.a->Send({0, 2}, out.part(6, 2), InMs(5000), s2.done());
  ends_.b->Receive({0, 1}, in.part(5, 3), InMs(5000), r1.done());
  ends_.b->Receive({0, 2}, in.part(0, 2), InMs(5000), r2.done());
  ASSERT_TRUE(r1.Wait().ok());
  ASSERT_TRUE(r2.Wait().ok());
  EXPECT_EQ(in.text(), "gh...abc");
}

TEST_P(ChannelTest, DoneRunsOnTheLoopAndWithoutALock) {
  // If `done` ran inside the call that posts, or under a lock that posting takes, this would not end.
  constexpr int kRounds = 200;
  Bytes out("o"), in(1);
  absl::Mutex held_while_posting;
  absl::Notification finished;
  std::atomic<int> round{0};
  std::atomic<bool> on_posting_thread{false};
  const std::thread::id self = std::this_thread::get_id();
  std::function<void(absl::Status)> next = [&](absl::Status status) {
    if (std::this_thread::get_id() == self) on_posting_thread = true;
    absl::MutexLock lock(&held_while_posting);
    if (!status.ok() || ++round == kRounds) return finished.Notify();
    ends_.b->Receive({0, static_cast<uint64_t>(round)}, in.block(), InMs(10000), [](absl::Status) {});
    ends_.a->Send({0, static_cast<uint64_t>(round)}, out.block(), InMs(10000), next);
  };
  {
    absl::MutexLock lock(&held_while_posting);
    ends_.b->Receive({0, 0}, in.block(), InMs(10000), [](absl::Status) {});
    ends_.a->Send({0, 0}, out.block(), InMs(10000), next);
  }
  EXPECT_TRUE(finished.WaitForNotificationWithTimeout(absl::Seconds(20)));
  ends_.a.reset();
  ends_.b.reset();
  EXPECT_EQ(round, kRounds);
  EXPECT_FALSE(on_posting_thread);
}

TEST_P(ChannelTest, LengthThatDiffersIsAnErrorOnBothEnds) {
  Bytes out("12345"), in(4);
  Outcome sent, received, waiting;
  ends_.a->Receive({5, 5}, {}, InMs(10000), waiting.done());
  ends_.b->Receive({0, 1}, in.block(), InMs(10000), received.done());
  ends_.a->Send({0, 1}, out.block(), InMs(10000), sent.done());
  EXPECT_EQ(received.Wait().code(), absl::StatusCode::kInvalidArgument) << received.Wait();
  EXPECT_EQ(waiting.Wait().code(), absl::StatusCode::kUnavailable) << waiting.Wait();
  Outcome later;
  ends_.b->Send({0, 2}, {}, InMs(10000), later.done());
  EXPECT_EQ(later.Wait().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(ChannelTest, ABlockOutsideItsMemoryIsRefused) {
  Bytes out("12345");
  Outcome sent;
  ends_.a->Send({0, 1}, out.part(3, 3), InMs(10000), sent.done());
  EXPECT_EQ(sent.Wait().code(), absl::StatusCode::kInvalidArgument);
}

TEST_P(ChannelTest, ManyChannelsAtOnce) {
  constexpr int kChannels = 40;
  constexpr size_t kBytes = 200000;
  std::vector<std::unique_ptr<transport::Channel>> a(kChannels), b(kChannels);
  std::vector<std::unique_ptr<Bytes>> out, in;
  std::vector<Outcome> sent(kChannels), received(kChannels);
  for (int i = 0; i < kChannels; ++i) {
    ends_.Add(std::to_string(i), &a[i], &b[i]);
    out.push_back(std::make_unique<Bytes>(Bytes::Pattern(kBytes, i)));
    in.push_back(std::make_unique<Bytes>(kBytes));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < kChannels; i += 4) {
        b[i]->Receive({0, 1}, in[i]->block(), InMs(15000), received[i].done());
        a[i]->Send({0, 1}, out[i]->block(), InMs(15000), sent[i].done());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kChannels; ++i) {
    ASSERT_TRUE(received[i].Wait().ok()) << received[i].Wait();
    ASSERT_TRUE(sent[i].Wait().ok());
    EXPECT_TRUE(in[i]->text() == out[i]->text()) << i;
  }
}

TEST_P(ChannelTest, ManyThreadsPostOnOneChannel) {
  constexpr int kThreads = 4;
  constexpr int kEach = 200;
  std::vector<std::unique_ptr<Bytes>> out, in;
  std::vector<Outcome> sent(kThreads * kEach), received(kThreads * kEach);
  for (int i = 0; i < kThreads * kEach; ++i) {
    out.push_back(std::make_unique<Bytes>(Bytes::Pattern(1 + i * 61 % 3000, i)));
    in.push_back(std::make_unique<Bytes>(out.back()->text().size()));
  }
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = t; i < kThreads * kEach; i += kThreads) {
        ends_.a->Send({1, static_cast<uint64_t>(i)}, out[i]->block(), InMs(15000), sent[i].done());
        ends_.b->Receive({1, static_cast<uint64_t>(i)}, in[i]->block(), InMs(15000), received[i].done());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int i = 0; i < kThreads * kEach; ++i) {
    ASSERT_TRUE(received[i].Wait().ok()) << received[i].Wait();
    EXPECT_TRUE(in[i]->text() == out[i]->text()) << i;
  }
}

TEST_P(ChannelTest, DiscardEndsSmallerTagsAndTheChannelLives) {
  Bytes small("abc"), got_small(3), late("late"), got_late(4);
  Outcome pending, posted_later, sent_later, s, r;
  ends_.b->Receive({1, 9}, got_small.block(), TimePoint::Infinite(), pending.done());
  ends_.b->Receive({2, 0}, got_late.block(), InMs(10000), r.done());
  ends_.b->Discard({2, 0});
  EXPECT_TRUE(absl::IsCancelled(pending.Wait())) << pending.Wait();
  ends_.b->Receive({1, 9}, got_small.block(), TimePoint::Infinite(), posted_later.done());
  ends_.b->Send({1, 5}, small.block(), TimePoint::Infinite(), sent_later.done());
  EXPECT_TRUE(absl::IsCancelled(posted_later.Wait())) << posted_later.Wait();
  EXPECT_TRUE(absl::IsCancelled(sent_later.Wait())) << sent_later.Wait();
  ends_.b->Discard({1, 0});
  ends_.a->Send({2, 0}, late.block(), InMs(10000), s.done());
  EXPECT_TRUE(r.Wait().ok()) << r.Wait();
  EXPECT_TRUE(s.Wait().ok()) << s.Wait();
  EXPECT_EQ(got_late.text(), "late");
}

// Frames that came early and frames that come later, small and larger than any buffer of the medium.
TEST_P(ChannelTest, DiscardDropsFramesAtTheReceiver) {
  for (const size_t bytes : {size_t{3}, size_t{8} << 20}) {
    const uint64_t high = bytes;
    Bytes stale(Bytes::Pattern(bytes, 1)), wanted(Bytes::Pattern(bytes, 2)), got(bytes);
    Outcome early, later, s, r;
    ends_.a->Send({high, 1}, stale.block(), InMs(15000), early.done());
    ends_.b->Discard({high, 5});
    ends_.a->Send({high, 4}, stale.block(), InMs(15000), later.done());
    ends_.a->Send({high, 5}, wanted.block(), InMs(15000), s.done());
    ends_.b->Receive({high, 5}, got.block(), InMs(15000), r.done());
    for (Outcome* outcome : {&early, &later, &s, &r}) ASSERT_TRUE(outcome->Wait().ok()) << outcome->Wait();
    EXPECT_TRUE(got.text() == wanted.text());
  }
}

// Wherever the transfer stands, the memory is free at once, and what follows arrives whole.
TEST_P(ChannelTest, DiscardInTheMiddleOfAFrame) {
  constexpr size_t kBytes = 16 << 20;
  auto stale = std::make_unique<Bytes>(Bytes::Pattern(kBytes, 1));
  auto place = std::make_unique<Bytes>(kBytes);
  Bytes wanted(Bytes::Pattern(100000, 2)), got(100000);
  for (uint64_t round = 1; round <= 20; ++round) {
    SCOPED_TRACE(round);
    Outcome sent, received, s, r;
    ends_.a->Send({round, 1}, stale->block(), TimePoint::Infinite(), sent.done());
    if (round % 3 != 0) ends_.b->Receive({round, 1}, place->block(), TimePoint::Infinite(), received.done());
    const int64_t until = Clock::Monotonic().Now().ns() + static_cast<int64_t>(round) * 100000;
    while (Clock::Monotonic().Now().ns() < until) std::this_thread::yield();
    const bool receiver_first = round % 2 == 0;
    (receiver_first ? ends_.b : ends_.a)->Discard({round, 2});
    (receiver_first ? ends_.a : ends_.b)->Discard({round, 2});
    const absl::Status ended = sent.Wait();
    EXPECT_TRUE(ended.ok() || absl::IsCancelled(ended)) << ended;
    if (round % 3 != 0) {
      EXPECT_TRUE(received.Wait().ok() || absl::IsCancelled(received.Wait())) << received.Wait();
    }
    place = std::make_unique<Bytes>(kBytes);
    ends_.a->Send({round, 2}, wanted.block(), InMs(15000), s.done());
    ends_.b->Receive({round, 2}, got.block(), InMs(15000), r.done());
    ASSERT_TRUE(r.Wait().ok()) << r.Wait();
    ASSERT_TRUE(s.Wait().ok()) << s.Wait();
    EXPECT_TRUE(got.text() == wanted.text());
  }
  EXPECT_TRUE(place->text() == std::string(kBytes, 0)) << "memory was written after its receive had ended";
}

}  // namespace
}  // namespace farandole::conformance
