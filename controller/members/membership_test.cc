#include "controller/members/membership.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/version.h"

namespace farandole::controller::members {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Admission = Membership::Admission;

Hello HelloOf(uint64_t worker, int rank, int size, uint64_t session = 1) {
  Hello hello;
  hello.session = session;
  hello.worker_incarnation = Incarnation(worker);
  hello.pid = static_cast<int64_t>(worker);
  hello.version = kVersion;
  hello.rank = Rank(rank);
  hello.size = size;
  return hello;
}

class MembershipTest : public ::testing::Test {
 protected:
  Membership::Answer Join(const Hello& hello, const std::string& agent = "a") {
    return membership_.Join(hello, agent, "host-" + agent, TimePoint(0));
  }
  Membership membership_{100};
};

TEST_F(MembershipTest, WhatIsOfNoUseToAJoinerIsNotKept) {
  Hello hello = HelloOf(1, 0, 2);
  hello.open_requests.resize(1000);
  hello.begun.resize(1000);
  hello.retained.resize(1000);
  EXPECT_EQ(Join(hello).admission, Admission::kAdmitted);
  const Hello& kept = membership_.candidates()[0].hello;
  EXPECT_EQ(kept.open_requests.capacity(), 0u);
  EXPECT_EQ(kept.begun.capacity(), 0u);
  EXPECT_EQ(kept.retained.capacity(), 0u);
}

// Refusals are in tests/transcripts/rank_held.txt.
TEST_F(MembershipTest, ExplicitRanksComeBeforeFreeOnes) {
  EXPECT_EQ(Join(HelloOf(1, -1, 3)).admission, Admission::kAdmitted);
  EXPECT_EQ(Join(HelloOf(2, 0, 3)).admission, Admission::kAdmitted);
  EXPECT_THAT(membership_.Missing(10), ElementsAre(Rank(2)));
  EXPECT_FALSE(membership_.Complete());
  EXPECT_EQ(Join(HelloOf(3, -1, 3)).admission, Admission::kAdmitted);
  EXPECT_TRUE(membership_.Complete());
  std::vector<uint64_t> workers;
  for (const Candidate& c : membership_.Take()) workers.push_back(c.hello.worker_incarnation.value());
  EXPECT_THAT(workers, ElementsAre(2, 1, 3));
  EXPECT_EQ(membership_.size(), 0);
}

TEST_F(MembershipTest, NewerSessionsReplaceOlderOnesAreIgnored) {
  Join(HelloOf(1, 0, 2, 5));
  EXPECT_EQ(Join(HelloOf(1, 0, 2, 5)).admission, Admission::kIgnored);
  EXPECT_EQ(Join(HelloOf(1, 0, 2, 6)).admission, Admission::kAdmitted);
  EXPECT_EQ(membership_.candidates().size(), 1u);
  EXPECT_EQ(membership_.Find(Incarnation(1))->hello.session, 6u);
}

TEST_F(MembershipTest, TheSameProcessMayTryAgainWithAnotherSize) {
  Join(HelloOf(1, 0, 2));
  Hello again = HelloOf(2, 0, 3);
  again.pid = 1;
  EXPECT_EQ(Join(again).admission, Admission::kAdmitted);
  EXPECT_EQ(membership_.Find(Incarnation(1)), nullptr);
  EXPECT_EQ(membership_.size(), 3);
  // The same pid behind another agent is another process.
  again.worker_incarnation = Incarnation(3);
  EXPECT_THAT(Join(again, "b").reason, HasSubstr("rank 0 is held by a live process, pid 1 on host host-a"));
}

TEST_F(MembershipTest, WhoIsDroppedMakesRoom) {
  Join(HelloOf(1, 0, 2));
  Join(HelloOf(2, 1, 2), "b");
  membership_.Drop(Incarnation(1));
  membership_.DropAgent("b");
  EXPECT_FALSE(membership_.HasAgent("b"));
  EXPECT_EQ(Join(HelloOf(3, 0, 1)).admission, Admission::kAdmitted);
  EXPECT_TRUE(membership_.Complete());
}

TEST_F(MembershipTest, TooLargeAJobIsRefused) {
  EXPECT_THAT(Join(HelloOf(1, 0, 101)).reason, HasSubstr("from 1 to 100"));
}

TEST_F(MembershipTest, LocalAndCrossPositionsFollowAgentsAndRanks) {
  // Agents of 2, 1 and 2 workers, interleaved.
  Join(HelloOf(1, 0, 5), "a");
  Join(HelloOf(2, 1, 5), "b");
  Join(HelloOf(3, 2, 5), "c");
  Join(HelloOf(4, 3, 5), "c");
  Join(HelloOf(5, 4, 5), "a");
  std::vector<std::vector<int>> positions;
  for (const Member& m : ToMembers(membership_.Take())) {
    positions.push_back({m.local_rank, m.local_size, m.cross_rank, m.cross_size});
  }
  EXPECT_THAT(positions, ElementsAre(ElementsAre(0, 2, 0, 3), ElementsAre(0, 1, 1, 3), ElementsAre(0, 2, 2, 3),
                                     ElementsAre(1, 2, 0, 2), ElementsAre(1, 2, 1, 2)));
}

}  // namespace
}  // namespace farandole::controller::members
