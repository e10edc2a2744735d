#include "controller/ready/negotiator.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::ready {
namespace {

using ::testing::ElementsAre;

const TimePoint kNow(0);

Request Tensor(const std::string& name, int64_t elements = 4, uint32_t set = 0) {
  Request request;
  request.name = name;
  request.signature.op = OpKind::kAllreduce;
  request.signature.dtype = DataType::kFloat32;
  request.signature.shape = {elements};
  request.signature.process_set = set;
  return request;
}

Request MakeJoin() {
  Request join = Tensor("join");
  join.signature.op = OpKind::kJoin;
  return join;
}

// The rest is in tests/transcripts: fusion, mismatch, process_sets, join, groups, signature_slots.
class NegotiatorTest : public ::testing::Test {
 protected:
  NegotiatorTest() : roster_(std::vector<members::Candidate>(3)), outbox_(log::ItemLog({1, 1}, 3, 4096), &roster_) {
    config_.settings.cache_capacity = 2;
    negotiator_ = std::make_unique<Negotiator>(
        3, config_, &outbox_, [](const std::vector<Rank>&) { return "left"; },
        [this](Rank rank, TimePoint, bool last, TimePoint) {
          if (last) last_.push_back(rank);
        });
  }

  bool Say(const std::vector<Negotiator::Teller>& who, const std::vector<Request>& requests,
           const std::vector<uint32_t>& slots = {}) {
    Actions actions;
    return negotiator_->Announce(who, requests, {{0, slots}}, kNow, &actions);
  }
  std::vector<Negotiator::Teller> All(uint64_t received) {
    return {{Rank(0), received}, {Rank(1), received}, {Rank(2), received}};
  }
  // Name and slot of each entry of the next batch.
  std::vector<std::string> Next(uint64_t stable = 0) {
    Negotiator::Dispatch dispatch;
    std::vector<std::string> entries;
    if (!negotiator_->NextBatch(
            ++index_, stable, kNow, [](uint32_t) { return false; }, &dispatch))
      return entries;
    negotiator_->Completed(Rank(0), index_);
    for (const BatchEntry& entry : dispatch.batch.entries) {
      signatures_ = entry.signature.op != OpKind::kUnspecified;
      entries.push_back(entry.name + "@" + std::to_string(entry.slot));
    }
    for (const Request& request : dispatch.executed) executed_.push_back(request.name);
    return entries;
  }

  JobConfig config_;
  members::Roster roster_;
  log::Outbox outbox_;
  std::unique_ptr<Negotiator> negotiator_;
  uint64_t index_ = 0;
  std::vector<std::string> executed_;
  std::vector<Rank> last_;
  bool signatures_ = false;  // in the last batch
};

TEST_F(NegotiatorTest, OneAnnouncementOfSeveralCountsForEach) {
  Say({{Rank(0), 0}, {Rank(2), 0}}, {Tensor("x"), Tensor("y")});
  EXPECT_EQ(negotiator_->OpenCount(Rank(2)), 2u);
  EXPECT_EQ(negotiator_->OpenCount(Rank(1)), 0u);
  Say({{Rank(1), 0}}, {Tensor("x"), Tensor("y")});
  EXPECT_THAT(Next(), ElementsAre("x@1", "y@2"));
  EXPECT_THAT(last_, ElementsAre(Rank(1), Rank(1)));
}

TEST_F(NegotiatorTest, KnownSignaturesTravelBySlot) {
  Say(All(0), {Tensor("x")});
  EXPECT_THAT(Next(), ElementsAre("x@1"));
  EXPECT_TRUE(Say(All(1), {}, {1}));
  EXPECT_THAT(Next(), ElementsAre("@1"));
  EXPECT_THAT(executed_, ElementsAre("x", "x"));
  EXPECT_EQ(negotiator_->NameIn(0, 1, 2), "x");
}

TEST_F(NegotiatorTest, SomeBySlotAndSomeInFullIsTheSame) {
  Say(All(0), {Tensor("x")});
  Next();
  Say({{Rank(0), 1}}, {}, {1});
  Say({{Rank(1), 1}, {Rank(2), 1}}, {Tensor("x")});
  EXPECT_THAT(Next(), ElementsAre("@1"));
}

TEST_F(NegotiatorTest, EachMeansWhatItHasReceivedOfARedefinedSlot) {
  Say(All(0), {Tensor("x"), Tensor("y")});
  EXPECT_THAT(Next(), ElementsAre("x@1", "y@2"));
  Say(All(1), {Tensor("z")});
  EXPECT_THAT(Next(1), ElementsAre("z@1"));
  // Rank 2 has not received item 2: its slot 1 is x. Others say x in full.
  EXPECT_TRUE(Say({{Rank(0), 2}, {Rank(2), 1}}, {}, {1}));
  EXPECT_TRUE(Say({{Rank(0), 2}, {Rank(1), 2}}, {Tensor("x")}));
  EXPECT_THAT(Next(1), ElementsAre("x@2"));
  EXPECT_TRUE(Say({{Rank(1), 3}, {Rank(2), 3}}, {}, {1}));
  EXPECT_THAT(Next(1), ElementsAre("@1"));
  EXPECT_EQ(executed_.back(), "z");
}

TEST_F(NegotiatorTest, ASlotThatNothingIsInIsAFault) {
  Say(All(0), {Tensor("x")});
  Next();
  EXPECT_FALSE(Say({{Rank(0), 1}}, {}, {2}));
  EXPECT_FALSE(Say({{Rank(0), 0}}, {}, {1})) << "it has not received what fills it";
}

TEST_F(NegotiatorTest, SlotsCanBeSaidInFull) {
  Say(All(0), {Tensor("x")});
  Next();
  std::vector<Request> requests;
  EXPECT_TRUE(negotiator_->Resolve({Rank(0), 1}, {{0, {1}}}, &requests));
  EXPECT_THAT(requests, ElementsAre(Tensor("x")));
  EXPECT_FALSE(negotiator_->Resolve({Rank(0), 1}, {{0, {2}}}, &requests));
  EXPECT_FALSE(negotiator_->Resolve({Rank(0), 1}, {{3, {1}}}, &requests));
}

TEST_F(NegotiatorTest, ARestoredSetIsPacedByItsFirstRank) {
  negotiator_->RestoreSets({{1, {Rank(0), Rank(1)}}}, {});
  for (const std::string name : {"a", "b", "c", "d", "e"}) {
    Say({{Rank(0), 0}, {Rank(1), 0}}, {Tensor(name, 4, 1)});
    EXPECT_EQ(Next().size(), 1u) << name;
  }
}

TEST_F(NegotiatorTest, ClearMakesEverythingVoid) {
  Say({{Rank(0), 0}}, {Tensor("x")});
  Say(All(0), {Tensor("ready")});
  Say({{Rank(1), 0}}, {MakeJoin()});
  EXPECT_EQ(negotiator_->OpenCount(Rank(1)), 2u);
  negotiator_->Clear();
  EXPECT_THAT(Next(), ElementsAre());
  EXPECT_EQ(negotiator_->OpenCount(Rank(0)), 0u);
  EXPECT_TRUE(negotiator_->joined().empty());
}

TEST_F(NegotiatorTest, JoinsThatALeaverEndsEndBehindWhatHasTheirZeros) {
  negotiator_->RestoreSets({{1, {Rank(0), Rank(1)}}}, {});
  Say({{Rank(1), 0}}, {MakeJoin()});
  Say({{Rank(0), 0}}, {Tensor("x", 4, 1)});
  negotiator_->Leave(Rank(2));
  EXPECT_TRUE(negotiator_->joined().empty());
  EXPECT_EQ(negotiator_->JoinsEndBehind().count(), 2);
  EXPECT_TRUE(negotiator_->EndJoinsOfLeave().empty());
  EXPECT_EQ(negotiator_->Ready(10).size(), 2u) << "x, and the join";
  // It says so again, after its connection was lost.
  negotiator_->Retain(Rank(1), {MakeJoin()});
  Say({{Rank(1), 0}}, {MakeJoin()});
  EXPECT_EQ(negotiator_->OpenCount(Rank(1)), 1u);
  EXPECT_TRUE(outbox_.queue_empty());
  // Nobody needs the zeros of one that joins now. Its requests wait for the first one's own.
  Say({{Rank(0), 0}}, {Tensor("y", 4, 1), MakeJoin()});
  EXPECT_EQ(outbox_.QueuedFor(Rank(0)), 1u);

  EXPECT_THAT(Next(), ElementsAre("x@1"));
  EXPECT_TRUE(signatures_) << "rank 1 adds zeros like these";
  EXPECT_THAT(negotiator_->EndJoinsOfLeave().ToVector(), ElementsAre(Rank(1)));
  EXPECT_EQ(outbox_.QueuedFor(Rank(0)), 1u);
  EXPECT_EQ(outbox_.QueuedFor(Rank(1)), 1u);
  EXPECT_EQ(negotiator_->OpenCount(Rank(1)), 0u);
  EXPECT_TRUE(negotiator_->EndJoinsOfLeave().empty());
  EXPECT_THAT(Next(), ElementsAre());
  Say({{Rank(1), 0}}, {Tensor("y", 4, 1), MakeJoin()});
  EXPECT_EQ(outbox_.QueuedFor(Rank(1)), 2u);
  EXPECT_THAT(Next(), ElementsAre("y@2"));
  EXPECT_FALSE(signatures_);
}

TEST_F(NegotiatorTest, JoinsThatALeaverEndsEndBehindErrorsForThem) {
  negotiator_->RestoreSets({{1, {Rank(0), Rank(1)}}}, {});
  Say({{Rank(1), 0}}, {MakeJoin()});
  Request gather = Tensor("rows", 4, 1);
  gather.signature.op = OpKind::kAllgather;
  Say({{Rank(0), 0}}, {gather});
  negotiator_->Leave(Rank(2));
  EXPECT_TRUE(negotiator_->EndJoinsOfLeave().empty()) << "that of rank 0's rows goes to rank 1 as well";
  outbox_.ClearQueue();
  EXPECT_FALSE(negotiator_->EndJoinsOfLeave().empty());
}

}  // namespace
}  // namespace farandole::controller::ready
