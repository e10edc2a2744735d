#include "controller/recovery/gather.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::controller::recovery {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

const GenerationId kGeneration{3, 7};

class GatherTest : public ::testing::Test {
 protected:
  static Hello HelloOf(uint64_t worker, std::vector<uint64_t> retained = {}, uint64_t session = 1) {
    Hello hello;
    hello.session = session;
    hello.worker_incarnation = Incarnation(worker);
    hello.generation = kGeneration;
    hello.knows_all_hosts = worker != 9;
    hello.retained = std::move(retained);
    return hello;
  }
  static View TwoMembers() {
    View view;
    view.generation = kGeneration;
    for (int r = 0; r < 2; ++r) {
      Member member;
      member.rank = Rank(r);
      member.pid = 100 + r;
      member.host = "h";
      member.agent_id = "a";
      member.worker_incarnation = Incarnation(r + 1);
      view.members.push_back(member);
    }
    return view;
  }
  static Recalled Items(const std::vector<uint64_t>& indices) {
    Recalled recalled;
    recalled.generation = kGeneration;
    for (uint64_t index : indices) recalled.items.push_back({kGeneration, 0, index, JoinDone{}});
    return recalled;
  }
  void Say(uint64_t worker, const WorkerUp& message) {
    gather_.OnSaid("a", FromWorker{Incarnation(worker), message, {}}, &actions_);
  }
  void TellView(uint64_t worker) {
    Recalled recalled;
    recalled.generation = kGeneration;
    recalled.view = TwoMembers();
    Say(worker, recalled);
  }
  // Recalls since the last call: worker and indices.
  std::vector<std::pair<uint64_t, std::vector<uint64_t>>> Recalls() {
    std::vector<std::pair<uint64_t, std::vector<uint64_t>>> recalls;
    for (const Send& send : actions_.sends) {
      const auto* down = std::get_if<WorkerDown>(&send.message);
      const Recall* recall = down == nullptr ? nullptr : std::get_if<Recall>(down);
      if (recall != nullptr && !recall->state) recalls.push_back({(*send.to)[0].workers[0].value(), recall->indices});
    }
    actions_.sends.clear();
    return recalls;
  }

  Gather gather_{kGeneration, 8, TimePoint(0), 1000};
  Actions actions_;
};

TEST_F(GatherTest, WaitsForTheViewTheMembersAndTheItems) {
  gather_.OnHello("a", HelloOf(1, {4, 5}), &actions_);
  EXPECT_EQ(actions_.sends.size(), 2u);  // Welcome, Recall
  TellView(1);
  EXPECT_TRUE(gather_.HasMember(Incarnation(2)));
  EXPECT_THAT(gather_.awaited().ToVector(), ElementsAre(Rank(1)));
  EXPECT_THAT(Recalls(), IsEmpty());
  gather_.OnHello("a", HelloOf(2, {5, 6}), &actions_);
  EXPECT_THAT(Recalls(),
              ElementsAre(std::make_pair(1, std::vector<uint64_t>{4, 5}), std::make_pair(2, std::vector<uint64_t>{6})));
  Say(1, Items({4, 5}));
  EXPECT_FALSE(gather_.complete());
  Say(2, Items({6}));
  ASSERT_TRUE(gather_.complete());
  const Recovered found = gather_.Take();
  EXPECT_EQ(found.items.size(), 3u);
  EXPECT_EQ(found.members.size(), 2u);
  EXPECT_EQ(found.fault, "");
}

TEST_F(GatherTest, WhatIsSaidMeanwhileIsAsIfHelloHadSaidIt) {
  gather_.OnHello("a", HelloOf(1), &actions_);
  gather_.OnHello("a", HelloOf(2), &actions_);
  Request request;
  request.name = "x";
  Say(1, Announce{kGeneration, 0, 0, 0, {request}, {}});
  Say(1, Announce{kGeneration, 1, 0, 0, {request}, {}});  // of another phase
  Say(2, Break{kGeneration, 0, BreakReason::kNew, {}});
  Say(2, Leave{kGeneration, 9, 8});
  Say(2, Halted{kGeneration, 0, 0, 0, 5});
  TellView(1);
  ASSERT_TRUE(gather_.complete());
  const Recovered found = gather_.Take();
  EXPECT_EQ(found.members[0].hello.open_requests.size(), 1u);
  EXPECT_TRUE(found.members[1].hello.wants_break);
  EXPECT_TRUE(found.members[1].hello.leaving);
  EXPECT_EQ(found.members[1].hello.completed_through, 8u);
  EXPECT_EQ(found.members[1].hello.state, WorkerState::kHalted);
  EXPECT_EQ(found.members[1].hello.next, 5u);
}

TEST_F(GatherTest, AsksAnotherOneWhenASessionIsLost) {
  gather_.OnHello("a", HelloOf(1, {4}), &actions_);
  gather_.OnHello("b", HelloOf(2, {4}), &actions_);
  TellView(1);
  EXPECT_THAT(Recalls(), ElementsAre(std::make_pair(1, std::vector<uint64_t>{4})));
  gather_.CloseSessions("a", &actions_);
  EXPECT_THAT(Recalls(), ElementsAre(std::make_pair(2, std::vector<uint64_t>{4})));
  gather_.CloseSessions("b", &actions_);
  EXPECT_FALSE(gather_.complete());
  EXPECT_THAT(Recalls(), IsEmpty());
  gather_.OnHello("a", HelloOf(1, {4}, 2), &actions_);
  EXPECT_THAT(Recalls(), ElementsAre(std::make_pair(1, std::vector<uint64_t>{4})));
  Say(1, Items({4}));
  EXPECT_TRUE(gather_.complete());
}

TEST_F(GatherTest, AnItemThatNobodyHasAnyMoreIsAFault) {
  gather_.OnHello("a", HelloOf(1, {4}), &actions_);
  gather_.OnHello("a", HelloOf(2), &actions_);
  TellView(1);
  Say(1, Items({}));
  ASSERT_TRUE(gather_.complete());
  EXPECT_THAT(gather_.Take().fault, ::testing::HasSubstr("item 4"));
}

TEST_F(GatherTest, WhoHasLeftOrDiedIsNotWaitedFor) {
  gather_.OnEnded(Incarnation(2), "", true, &actions_);
  gather_.OnHello("a", HelloOf(1), &actions_);
  TellView(1);
  ASSERT_TRUE(gather_.complete());
  EXPECT_TRUE(gather_.Take().members[1].left);
}

TEST_F(GatherTest, WhoDoesNotComeIsDeadAtTheDeadline) {
  gather_.OnHello("a", HelloOf(1, {4}), &actions_);
  TellView(1);
  gather_.Tick(TimePoint(0).PlusMs(999), &actions_);
  EXPECT_FALSE(gather_.complete());
  gather_.Tick(TimePoint(0).PlusMs(1000), &actions_);
  ASSERT_TRUE(gather_.complete());
  EXPECT_NE(gather_.Take().members[1].dead, "");
}

TEST_F(GatherTest, AsksForTheViewWhoKnowsAllHosts) {
  gather_.OnHello("a", HelloOf(9), &actions_);
  EXPECT_EQ(actions_.sends.size(), 1u);  // Welcome
  gather_.OnHello("a", HelloOf(1), &actions_);
  EXPECT_EQ(actions_.sends.size(), 3u);
  gather_.OnHello("a", HelloOf(2), &actions_);
  EXPECT_EQ(actions_.sends.size(), 4u);
  Recalled recalled;
  recalled.generation = kGeneration;
  recalled.view = TwoMembers();
  recalled.view.members[1].worker_incarnation = Incarnation();
  Say(1, recalled);
  EXPECT_FALSE(gather_.has_view());
  EXPECT_EQ(actions_.sends.size(), 5u);
  TellView(2);
  EXPECT_TRUE(gather_.has_view());
}

TEST_F(GatherTest, AViewWithNobodyOrWithOneTwiceIsNotBelieved) {
  gather_.OnHello("a", HelloOf(1), &actions_);
  Recalled recalled;
  recalled.generation = kGeneration;
  recalled.view.generation = kGeneration;
  Say(1, recalled);
  EXPECT_FALSE(gather_.has_view());
  gather_.OnHello("a", HelloOf(1, {}, 2), &actions_);
  recalled.view = TwoMembers();
  recalled.view.members[1].worker_incarnation = Incarnation(1);
  Say(1, recalled);
  EXPECT_FALSE(gather_.has_view());
  gather_.OnHello("a", HelloOf(2), &actions_);
  TellView(2);
  EXPECT_TRUE(gather_.has_view());
}

TEST_F(GatherTest, WhoIsAskedForTheViewMayBeStopped) {
  gather_.OnHello("a", HelloOf(1), &actions_);
  gather_.OnHello("a", HelloOf(2), &actions_);
  EXPECT_EQ(actions_.sends.size(), 3u);  // Welcome, Recall, Welcome
  EXPECT_EQ(gather_.deadline(), TimePoint(0).PlusMs(100));
  gather_.Tick(TimePoint(0).PlusMs(99), &actions_);
  EXPECT_EQ(actions_.sends.size(), 3u);
  gather_.Tick(TimePoint(0).PlusMs(100), &actions_);
  ASSERT_EQ(actions_.sends.size(), 4u);
  EXPECT_EQ((*actions_.sends.back().to)[0].workers[0], Incarnation(2));
  EXPECT_EQ(gather_.deadline(), TimePoint(0).PlusMs(200));
  TellView(2);
  EXPECT_TRUE(gather_.complete());
  // What the first one says late is of no harm.
  TellView(1);
  EXPECT_EQ(gather_.Take().view.members.size(), 2u);
}

TEST_F(GatherTest, WhoIsAskedForItemsMayBeStopped) {
  gather_.OnHello("a", HelloOf(1, {4, 5}), &actions_);
  gather_.OnHello("a", HelloOf(2, {4}), &actions_);
  TellView(1);
  EXPECT_THAT(Recalls(), ElementsAre(std::make_pair(1, std::vector<uint64_t>{4, 5})));
  gather_.Tick(TimePoint(0).PlusMs(100), &actions_);
  EXPECT_THAT(Recalls(), ElementsAre(std::make_pair(2, std::vector<uint64_t>{4})));
  Say(2, Items({4}));
  EXPECT_FALSE(gather_.complete());
  // Nobody else has it.
  gather_.Tick(TimePoint(0).PlusMs(200), &actions_);
  EXPECT_THAT(Recalls(), IsEmpty());
  Say(1, Items({4, 5}));
  ASSERT_TRUE(gather_.complete());
  const Recovered found = gather_.Take();
  EXPECT_EQ(found.items.size(), 2u);
  EXPECT_EQ(found.fault, "");
}

TEST_F(GatherTest, WhoIsSlowAndDoesNotHaveItIsNotWaitedFor) {
  gather_.OnHello("a", HelloOf(1, {5}), &actions_);
  gather_.OnHello("a", HelloOf(2), &actions_);
  TellView(1);
  gather_.Tick(TimePoint(0).PlusMs(100), &actions_);
  EXPECT_FALSE(gather_.complete());
  Say(1, Items({}));
  ASSERT_TRUE(gather_.complete());
  EXPECT_THAT(gather_.Take().fault, ::testing::HasSubstr("item 5"));
}

TEST_F(GatherTest, WithoutAViewThereIsNoHope) {
  gather_.OnHello("a", HelloOf(1), &actions_);
  gather_.Tick(TimePoint(0).PlusMs(1000), &actions_);
  EXPECT_TRUE(gather_.hopeless());
  EXPECT_FALSE(gather_.complete());
}

TEST_F(GatherTest, AWorkerThatIsNamedTwiceSaysItOnce) {
  gather_.OnHello("a", HelloOf(1), &actions_);
  gather_.OnHello("a", HelloOf(2), &actions_);
  Announce announce;
  announce.generation = kGeneration;
  announce.requests.push_back({"x", {}});
  const SameFrom first{Incarnation(1), 0, 0};
  const SameFrom second{Incarnation(2), 0, 0};
  gather_.OnSaid("a", FromWorker{Incarnation(1), announce, {second, second, first}}, &actions_);
  for (uint64_t worker : {1, 2}) {
    EXPECT_EQ(gather_.workers().at(Incarnation(worker)).hello.open_requests.size(), 1u) << worker;
  }
}

TEST_F(GatherTest, WorkersThatNobodyKnowsAreBounded) {
  gather_.OnHello("a", HelloOf(1), &actions_);
  for (uint64_t worker = 3; gather_.workers().size() < Gather::kWorkersMax; ++worker) {
    gather_.OnEnded(Incarnation(worker), "ended", false, &actions_);
  }
  actions_.sends.clear();
  gather_.OnHello("a", HelloOf(2), &actions_);
  EXPECT_THAT(actions_.sends, IsEmpty());
  EXPECT_EQ(gather_.workers().size(), Gather::kWorkersMax);
  // A member has room.
  TellView(1);
  gather_.OnHello("a", HelloOf(2), &actions_);
  EXPECT_TRUE(gather_.workers().at(Incarnation(2)).present);
}

}  // namespace
}  // namespace farandole::controller::recovery
