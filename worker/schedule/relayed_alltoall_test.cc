#include "worker/schedule/relayed_alltoall.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <vector>

#include "gtest/gtest.h"
#include "worker/schedule/schedule.h"

namespace farandole::worker::schedule {
namespace {

int64_t BytesOf(int source, int destination, int variant) {
  if (variant == 0) return 3;
  if (variant == 1) return (source * 7 + destination * 5) % 4;
  return source == 1 && destination == 0 ? 1000 : 0;
}

char ByteOf(int source, int destination, int64_t at) {
  return static_cast<char>(source * 31 + destination * 7 + at * 3 + 1);
}

// One member with its memory.
struct End {
  End(int position, int size, int variant) {
    for (int m = 0; m < size; ++m) {
      sends.push_back(BytesOf(position, m, variant));
      gets.push_back(BytesOf(m, position, variant));
      for (int64_t i = 0; i < sends.back(); ++i) input.push_back(ByteOf(position, m, i));
      for (int64_t i = 0; i < gets.back(); ++i) expected.push_back(ByteOf(m, position, i));
    }
    output.assign(expected.size() + 1, 'x');
    expected.push_back('x');
    relay = std::make_unique<RelayedAlltoall>(position, input.data(), output.data(), sends, gets);
  }

  std::vector<int64_t> sends, gets;
  std::vector<char> input, output, expected;
  std::unique_ptr<RelayedAlltoall> relay;
  int64_t sent = 0;
};

void RunRound(std::vector<End>* ends, int round) {
  std::vector<std::vector<int64_t>> sizes;
  for (End& end : *ends) {
    sizes.push_back(end.relay->Sizes(round));
    ASSERT_TRUE(end.relay->TakeOut(round).ok());
  }
  for (End& end : *ends) {
    const int from = end.relay->From(round);
    End& source = (*ends)[from];
    ASSERT_TRUE(end.relay->Expect(round, sizes[from]).ok());
    const int64_t bytes = std::accumulate(sizes[from].begin(), sizes[from].end(), int64_t{0});
    if (bytes > 0) std::memcpy(end.relay->arriving(), source.relay->sent(), bytes);
    source.sent += bytes;
  }
  for (End& end : *ends) end.relay->PutIn(round);
}

TEST(RelayedAlltoallTest, EveryBlockComesToItsAddresseeOverTheChannelsThatThereAre) {
  for (int size = 1; size <= 70; ++size) {
    for (int variant = 0; variant < 3; ++variant) {
      std::vector<End> ends;
      for (int p = 0; p < size; ++p) ends.emplace_back(p, size, variant);
      for (int round = 0; round < ends[0].relay->rounds(); ++round) {
        for (int p = 0; p < size; ++p) {
          const std::vector<int> peers = PeersOf(p, size);
          EXPECT_EQ(std::count(peers.begin(), peers.end(), ends[p].relay->To(round)), 1) << size << " " << round;
          EXPECT_EQ(ends[ends[p].relay->To(round)].relay->From(round), p);
        }
        RunRound(&ends, round);
      }
      for (int p = 0; p < size; ++p) ASSERT_EQ(ends[p].output, ends[p].expected) << size << " " << variant << " " << p;
    }
  }
}

// An allgather would have each receive 64 * 64 * 3.
TEST(RelayedAlltoallTest, EachSendsHalfOfItsDataInEachRound) {
  std::vector<End> ends;
  for (int p = 0; p < 64; ++p) ends.emplace_back(p, 64, 0);
  for (int round = 0; round < 6; ++round) RunRound(&ends, round);
  for (const End& end : ends) EXPECT_EQ(end.sent, 64 * 3 * 6 / 2);
}

TEST(RelayedAlltoallTest, SizesThatCannotBeAreRefused) {
  End end(0, 4, 0);
  ASSERT_TRUE(end.relay->TakeOut(0).ok());
  EXPECT_EQ(end.relay->Expect(0, {-1, 3}).code(), absl::StatusCode::kInternal);
  EXPECT_EQ(end.relay->Expect(0, {4, 3}).code(), absl::StatusCode::kInternal) << "it arrives and should have 3";
  EXPECT_EQ(end.relay->Expect(0, {3, INT64_MAX}).code(), absl::StatusCode::kInternal);
  EXPECT_TRUE(end.relay->Expect(0, {3, 5}).ok());
}

}  // namespace
}  // namespace farandole::worker::schedule
