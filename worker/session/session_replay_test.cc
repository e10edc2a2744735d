// The modes of a session: section 3 of docs/replay.md seen from a worker.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/session/session_testing.h"

namespace farandole::worker::session {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(SessionReplayTest, StartsBatchesInOrderWithoutAMessage) {
  Worker w(0);
  EXPECT_THAT(w.Say(MakeReplay({"ab", "c"})).send, IsEmpty());
  EXPECT_EQ(w.mode(), WorkerState::kReplay);
  for (uint64_t step = 0; step < 100; ++step) {
    EXPECT_THAT(w.Submit("c").work, IsEmpty());
    EXPECT_THAT(w.Submit("b").work, IsEmpty());
    const Effects first = w.Submit("a");
    EXPECT_THAT(Texts(first.work), ElementsAre("1/" + std::to_string(2 * step) + " a b"));
    EXPECT_EQ(first.work[0].instance.generation, kGeneration.number);
    EXPECT_EQ(w.session.Submit(first.work[0].operations[0], w.now, nullptr).code, completion::Code::kDuplicateName);
    const Effects second = w.Complete();
    EXPECT_THAT(Texts(second.work), ElementsAre("1/" + std::to_string(2 * step + 1) + " c"));
    const Effects done = w.Complete();
    for (const Effects* effects : {&first, &second, &done}) EXPECT_THAT(effects->send, IsEmpty());
  }
}

TEST(SessionReplayTest, APriorityOfItsOwnFits) {
  Worker w(0);
  Request first = MakeRequest("a"), later = first;
  first.signature.priority = 1;
  later.signature.priority = 2;
  w.Say(Replay{{{{0, {first}}}}});
  const Effects effects = w.Submit(later);
  EXPECT_THAT(effects.send, IsEmpty());
  EXPECT_THAT(Texts(effects.work), ElementsAre("1/0 a"));
}

TEST(SessionReplayTest, TheReplayServesWhatWasAnnouncedBefore) {
  Worker w(0);
  w.Submit("a");
  EXPECT_EQ(w.session.Flush().send.size(), 1u);
  w.Submit("b");
  const Effects replay = w.Say(MakeReplay({"a", "b"}));
  EXPECT_THAT(Texts(replay.work), ElementsAre("1/0 a"));
  EXPECT_THAT(w.session.Flush().send, IsEmpty()) << "b is the replay's";
  EXPECT_THAT(Texts(w.Complete().work), ElementsAre("1/1 b"));
}

TEST(SessionReplayTest, ItemsBeforeTheReplayAreDoneFirst) {
  Worker w(0);
  w.Submit("a");
  w.Say(MakeBatch("a"));
  w.Submit("b");
  EXPECT_THAT(w.Say(MakeReplay({"b"})).work, IsEmpty());
  EXPECT_THAT(Texts(w.Complete().work), ElementsAre("2/0 b"));
}

TEST(SessionReplayTest, TheWindowBoundsWhatIsInFlight) {
  Worker w(0, {2, 2});
  w.Say(MakeReplay({"a", "b", "c"}));
  EXPECT_THAT(w.Submit("b").work, IsEmpty());
  EXPECT_THAT(Texts(w.Submit("a").work), ElementsAre("1/0 a", "1/1 b"));
  EXPECT_THAT(w.Submit("c").work, IsEmpty());
  EXPECT_THAT(Texts(w.Complete().work), ElementsAre("1/2 c"));
}

TEST(SessionReplayTest, ANameMayStandInAPeriodSeveralTimes) {
  Worker w(0);
  Replay replay = MakeReplay({"a", "a", "b"});
  replay.period.batches[1].requests[0].signature.shape = {2};
  w.Say(replay);
  EXPECT_THAT(Texts(w.Submit("a").work), ElementsAre("1/0 a"));
  w.Complete();
  EXPECT_THAT(Texts(w.Submit(MakeRequest("a", {2})).work), ElementsAre("1/1 a"));
  w.Complete();
  EXPECT_THAT(w.Submit(MakeRequest("a", {2})).work, IsEmpty()) << "b comes first, and then the other a";
  EXPECT_THAT(Texts(w.Submit("b").work), ElementsAre("1/2 b"));
  EXPECT_THAT(w.Complete().work, IsEmpty());
}

TEST(SessionReplayTest, PassesOverBatchesOfOtherSets) {
  Worker w(0);
  w.Submit([] {
    Request request = MakeRequest("s");
    request.signature.op = OpKind::kAddProcessSet;
    return request;
  }());
  w.Say(SetChanged{"s", {1, {Rank(1), Rank(2)}}, false, false});
  w.Complete();
  Replay replay = MakeReplay({"a", "b"});
  replay.period.batches.insert(replay.period.batches.begin() + 1, PeriodBatch{1, {MakeRequest("x", {}, 1)}});
  w.Say(replay);
  w.Submit("a");
  EXPECT_EQ(w.session.replayer().cursor()->next(), 1u) << "next does not run ahead of what was started";
  w.Complete();
  EXPECT_THAT(Texts(w.Submit("b").work), ElementsAre("2/2 b"));
  EXPECT_EQ(w.session.replayer().cursor()->next(), 3u);
  w.Complete();
  EXPECT_THAT(Texts(w.Submit("a").work), ElementsAre("2/3 a"));
}

TEST(SessionReplayTest, BreaksAtOnceForWhatDoesNotFitAndOncePerPhase) {
  struct Case {
    Request request;
    BreakReason reason;
  };
  Request barrier = MakeRequest("barrier");
  barrier.signature.op = OpKind::kBarrier;
  Request join = MakeRequest("join");
  join.signature.op = OpKind::kJoin;
  Request set = MakeRequest("set");
  set.signature.op = OpKind::kRemoveProcessSet;
  for (const Case& c : std::vector<Case>{{MakeRequest("x"), BreakReason::kNew},
                                         {MakeRequest("a", {5}), BreakReason::kChanged},
                                         {MakeRequest("a", {}, 1), BreakReason::kNew},
                                         {barrier, BreakReason::kNotReplayable},
                                         {join, BreakReason::kJoin},
                                         {set, BreakReason::kSetChange}}) {
    Worker w(0);
    w.Say(MakeReplay({"a", "b"}));
    const Effects effects = w.Submit(c.request);
    ASSERT_EQ(effects.send.size(), 1u) << c.request.name;
    EXPECT_EQ(Sent<Break>(effects).reason, c.reason) << c.request.name;
    EXPECT_EQ(Sent<Break>(effects).phase, 1u);
    EXPECT_THAT(Sent<Break>(effects).names, ElementsAre(c.request.name));
    EXPECT_THAT(w.Submit("y").send, IsEmpty());
    // Goes on as before.
    if (c.request.name == "a") continue;
    EXPECT_EQ(w.Submit("a").work.size(), 1u);
  }
}

TEST(SessionReplayTest, HaltStopsAndResumeAnnouncesEverythingOpen) {
  Worker w(0);
  w.Say(MakeReplay({"a", "b"}));
  w.Submit("a");
  w.Submit("x");
  EXPECT_THAT(w.Hear(Halt{kGeneration, 0}).send, IsEmpty()) << "of another phase";
  EXPECT_THAT(w.Hear(Halt{{6, 100}, 1}).send, IsEmpty()) << "of another generation";
  const Effects halted = w.Hear(Halt{kGeneration, 1});
  EXPECT_EQ(Sent<Halted>(halted).next, 1u);
  EXPECT_EQ(Sent<Halted>(halted).phase, 1u);
  EXPECT_EQ(Sent<Halted>(halted).received_through, 1u);
  EXPECT_THAT(w.Submit("b").work, IsEmpty());
  EXPECT_THAT(w.Complete().work, IsEmpty()) << "no batch after Halted";
  EXPECT_EQ(Sent<Halted>(w.Hear(Halt{kGeneration, 1})).next, 1u) << "again";
  const Effects resume = w.Say(Resume{1, {}});
  ASSERT_EQ(resume.send.size(), 1u);
  EXPECT_EQ(Sent<Announce>(resume).phase, 2u);
  EXPECT_EQ(Sent<Announce>(resume).requests.size(), 2u);
  EXPECT_EQ(Sent<Announce>(resume).requests[0].name, "x");
  EXPECT_THAT(w.Hear(Halt{kGeneration, 2}).send, IsEmpty()) << "nothing to halt";
  EXPECT_EQ(w.Say(MakeBatch("bx")).work.size(), 1u);
}

TEST(SessionReplayTest, ItemsInAReplayAreProtocolErrors) {
  Worker w(0);
  w.Say(MakeReplay({"a"}));
  const Effects effects = w.Say(Batch{0, {}});
  EXPECT_EQ(Sent<Hello>(effects).session, 2u);
  EXPECT_EQ(Sent<Hello>(effects).received_through, 1u);
}

// The worked example of section 12: W=1, the script submits a and x in one step, in any order.
TEST(SessionReplayTest, BreakOneAheadEnter) {
  Worker w0(0), w1(1);
  for (Worker* w : {&w0, &w1}) {
    w->last_item = 3;
    w->Say(MakeReplay({"a"}));
    EXPECT_THAT(Texts(w->Submit("a").work), ElementsAre("4/0 a"));
    w->Complete();
  }
  EXPECT_THAT(Texts(w0.Submit("a").work), ElementsAre("4/1 a"));
  EXPECT_EQ(Sent<Break>(w1.Submit("x")).reason, BreakReason::kNew);
  EXPECT_EQ(Sent<Halted>(w0.Hear(Halt{kGeneration, 1})).next, 2u);
  EXPECT_EQ(Sent<Halted>(w1.Hear(Halt{kGeneration, 1})).next, 1u);
  const Resume resume{4, {{1, {Rank(0)}}}};
  EXPECT_EQ(Sent<Ack>(w0.Say(resume)).received_through, 5u) << "at once: who leaves waits for it";
  const Effects announces = w1.Say(resume);
  EXPECT_EQ(Sent<Announce>(announces).requests[0].name, "x");
  EXPECT_EQ(announces.send.size(), 1u) << "which says it, too";
  EXPECT_THAT(w0.session.replayer().begun().Seqs(), ElementsAre(1u));
  EXPECT_THAT(w1.session.replayer().begun().Seqs(), ElementsAre(1u));
  w1.Submit("a");
  EXPECT_EQ(Sent<Announce>(w1.session.Flush()).requests[0].name, "a");
  const Enter enter = MakeEnter(4, 1, "a", {Rank(0)});
  EXPECT_THAT(w0.Say(enter).work, IsEmpty());
  EXPECT_THAT(Texts(w1.Say(enter).work), ElementsAre("4/1 a"));
  for (Worker* w : {&w0, &w1}) {
    EXPECT_TRUE(w->session.executing()) << "item 6 is done with its instance";
    w->Complete();
    EXPECT_FALSE(w->session.executing());
    EXPECT_TRUE(w->session.replayer().begun().empty());
  }
  w0.Submit("x");
  EXPECT_EQ(Sent<Announce>(w0.session.Flush()).completed_through, 6u);
  EXPECT_THAT(Texts(w0.Say(MakeBatch("x")).work), ElementsAre("7/0 x"));
}

TEST(SessionReplayTest, EnterIsDecidedByItsListNotByWhatIsInFlight) {
  Worker w(0);
  w.Say(MakeReplay({"a"}));
  w.Submit("a");
  w.Hear(Halt{kGeneration, 1});
  w.Say(Resume{1, {{0, {Rank(0)}}}});
  w.Complete();  // the data was faster than the link
  w.Submit("a");
  EXPECT_THAT(w.Say(MakeEnter(1, 0, "a", {Rank(0)})).work, IsEmpty());
  EXPECT_FALSE(w.session.executing());
}

TEST(SessionReplayTest, AnEnterOfNothingFailsTheGeneration) {
  Worker w(1);
  w.Say(MakeReplay({"a"}));
  w.Hear(Halt{kGeneration, 1});
  w.Say(Resume{1, {{0, {Rank(0)}}}});
  Enter enter = MakeEnter(1, 0, "a", {Rank(0)});
  enter.requests.clear();
  const Effects effects = w.Say(enter);
  EXPECT_THAT(Sent<Failed>(effects).reason, testing::HasSubstr("without tensors"));
  EXPECT_THAT(effects.work, IsEmpty());
}

TEST(SessionReplayTest, WithdrawnRequestsAreOpenAgain) {
  Worker w(0, {2, 2});
  w.Say(MakeReplay({"a", "b"}));
  w.Submit("a");
  w.Submit("b");
  w.Hear(Halt{kGeneration, 1});
  w.Say(Resume{1, {{0, {Rank(0)}}, {1, {Rank(0)}}, {2, {Rank(1)}}}});
  EXPECT_THAT(w.session.replayer().begun().Seqs(), ElementsAre(0u, 1u, 2u));
  const Effects withdraw = w.Say(Withdraw{1, 0, {0, 1, 2}, "nobody comes"});
  ASSERT_EQ(withdraw.withdraw.size(), 2u) << "seq 2 was not begun here";
  EXPECT_EQ(Sent<Ack>(withdraw).received_through, 3u);
  EXPECT_EQ(withdraw.withdraw[1].instance, (collective::Instance{kGeneration.number, 1, 1}));
  EXPECT_TRUE(w.session.replayer().begun().empty());
  const Effects first = w.session.Withdrawn(w.in_flight[0], w.now);
  EXPECT_EQ(Sent<Announce>(first).requests[0].name, "a");
  EXPECT_EQ(Sent<Announce>(first).phase, 2u);
  EXPECT_EQ(Sent<Announce>(w.session.Withdrawn(w.in_flight[1], w.now)).requests[0].name, "b");
  w.in_flight.clear();
  EXPECT_THAT(Texts(w.Say(MakeBatch("ba")).work), ElementsAre("4/0 b a"));
}

// What was issued to an accelerator cannot be taken back: a controller that says so is not obeyed.
TEST(SessionReplayTest, TheWithdrawalOfAFinalInstanceEndsTheGeneration) {
  for (const int rank : {0, 1}) {
    SCOPED_TRACE(rank);
    Worker w(rank, {2, 2});
    Request on_accelerator = MakeRequest("b");
    on_accelerator.signature.device = DeviceKind::kAccelerator;
    w.Say(Replay{{{{0, {MakeRequest("a")}}, {0, {on_accelerator}}}}});
    w.Submit("a");
    w.Submit(on_accelerator);
    w.Hear(Halt{kGeneration, 1});
    w.Say(Resume{1, {{0, {Rank(0)}}, {1, {Rank(0)}}}});
    const Effects withdraw = w.Say(Withdraw{1, 0, {0, 1}, "nobody comes"});
    EXPECT_THAT(withdraw.withdraw, IsEmpty());
    EXPECT_TRUE(withdraw.removed);
    EXPECT_THAT(Sent<Failed>(withdraw).reason, testing::HasSubstr("on an accelerator, which cannot be withdrawn"));
    EXPECT_EQ(w.session.state(), Session::State::kRemoved);
  }
}

TEST(SessionReplayTest, BatchesOfEachKindOfMemoryHaveAWindowOfTheirOwn) {
  Worker w(0, {1, 3});
  Period period;
  for (const char* name : {"a", "b", "c", "d"}) {
    Request on_accelerator = MakeRequest(name);
    on_accelerator.signature.device = DeviceKind::kAccelerator;
    period.batches.push_back({0, {on_accelerator}});
  }
  for (const char* name : {"e", "f"}) period.batches.push_back({0, {MakeRequest(name)}});
  w.Say(Replay{period});
  for (const PeriodBatch& batch : period.batches) w.Submit(batch.requests[0]);
  EXPECT_THAT(Texts(w.in_flight), ElementsAre("1/0 a", "1/1 b", "1/2 c"));
  w.Complete();
  EXPECT_THAT(Texts(w.in_flight), ElementsAre("1/1 b", "1/2 c", "1/3 d", "1/4 e"));
  for (int i = 0; i < 3; ++i) w.Complete();
  EXPECT_THAT(Texts(w.in_flight), ElementsAre("1/4 e"));
  w.Complete();
  EXPECT_THAT(Texts(w.in_flight), ElementsAre("1/5 f"));
}

TEST(SessionReplayTest, BesideAFinalInstanceAnotherIsWithdrawn) {
  Worker w(0, {2, 2});
  Request on_accelerator = MakeRequest("a");
  on_accelerator.signature.device = DeviceKind::kAccelerator;
  w.Say(Replay{{{{0, {on_accelerator}}, {0, {MakeRequest("b")}}}}});
  w.Submit(on_accelerator);
  w.Submit("b");
  w.Hear(Halt{kGeneration, 1});
  w.Say(Resume{1, {{0, {Rank(0)}}, {1, {Rank(0)}}}});
  ASSERT_EQ(w.Say(Withdraw{1, 0, {1}, "nobody comes"}).withdraw.size(), 1u);
  EXPECT_EQ(Sent<Announce>(w.session.Withdrawn(w.in_flight[1], w.now)).requests[0].name, "b");
  w.in_flight.pop_back();
  EXPECT_THAT(w.session.replayer().begun().Seqs(), ElementsAre(0u));
  EXPECT_THAT(w.Say(MakeEnter(1, 0, "a", {Rank(0)})).work, IsEmpty());
  w.Complete();
  EXPECT_THAT(Texts(w.Say(MakeBatch("b")).work), ElementsAre("5/0 b"));
}

TEST(SessionReplayTest, LeaveWaitsForTheResume) {
  Worker w(0);
  w.Say(MakeReplay({"a"}));
  EXPECT_EQ(Sent<Break>(w.session.BeginLeave(w.now)).reason, BreakReason::kLeave);
  w.session.LinkDown();
  const Effects again = w.session.LinkUp();
  EXPECT_FALSE(Sent<Hello>(again).leaving);
  EXPECT_TRUE(Sent<Hello>(again).wants_break);
  w.Hear(Welcome{2, 100, {}});
  w.Hear(Halt{kGeneration, 1});
  const Effects resume = w.Say(Resume{1, {}});
  ASSERT_EQ(resume.send.size(), 1u);
  EXPECT_EQ(Sent<Leave>(resume).generation, kGeneration);
}

// If it dies before, its peers have to hear of it: on accelerators they may not notice themselves.
TEST(SessionReplayTest, WhoLeavesHasNotCompletedTheResumeBeforeWhatAllHaveStarted) {
  Worker w(0, {2, 2});
  w.Say(MakeReplay({"a", "b"}));
  w.Submit("a");
  w.Submit("b");
  w.session.BeginLeave(w.now);
  w.Hear(Halt{kGeneration, 1});
  const Leave leave = Sent<Leave>(w.Say(Resume{1, {}}));
  EXPECT_EQ(leave.received_through, 2u);
  EXPECT_EQ(leave.completed_through, 1u);
  EXPECT_THAT(w.Complete().send, IsEmpty());
  EXPECT_EQ(Sent<Ack>(w.Complete()).completed_through, 2u);
}

// For the agent, which would not know that this process was about to leave.
TEST(SessionReplayTest, LeaveIsSaidWhereTheGenerationEndsBeforeTheReplay) {
  Worker w(0);
  w.Say(MakeReplay({"a"}));
  w.session.BeginLeave(w.now);
  const Effects effects = w.Hear(Removed{kGeneration, RemovedKind::kPeerLost, "rank 1 died"});
  ASSERT_EQ(effects.send.size(), 1u);
  EXPECT_EQ(Sent<Leave>(effects).generation, kGeneration);
  EXPECT_EQ(w.session.end().code, completion::Code::kShutDown);
  Worker stays(0);
  stays.Say(MakeReplay({"a"}));
  EXPECT_THAT(stays.Hear(Removed{kGeneration, RemovedKind::kPeerLost, "rank 1 died"}).send, IsEmpty());
}

TEST(SessionReplayTest, ALeaveThatCrossesReplayIsSentAgain) {
  Worker w(0);
  EXPECT_EQ(w.session.BeginLeave(w.now).send.size(), 1u);
  EXPECT_EQ(Sent<Break>(w.Say(MakeReplay({"a"}))).reason, BreakReason::kLeave);
  w.Hear(Halt{kGeneration, 1});
  EXPECT_EQ(Sent<Leave>(w.Say(Resume{1, {}})).generation, kGeneration);
}

TEST(SessionReplayTest, PatienceEndsAnIncompleteHead) {
  Worker w(0);
  w.Say(MakeReplay({"ab"}));
  EXPECT_EQ(w.session.NextDeadline(), TimePoint::Infinite()) << "nothing is open";
  const TimePoint start = w.now;
  w.Submit("a");
  EXPECT_EQ(w.session.NextDeadline(), start.PlusMs(1000));
  EXPECT_THAT(w.session.Tick(start.PlusMs(999)).send, IsEmpty());
  const Effects effects = w.session.Tick(start.PlusMs(1000));
  EXPECT_EQ(Sent<Break>(effects).reason, BreakReason::kIncomplete);
  EXPECT_THAT(Sent<Break>(effects).names, ElementsAre("b"));
  EXPECT_EQ(w.session.NextDeadline(), TimePoint::Infinite());
  EXPECT_THAT(w.session.Tick(start.PlusMs(5000)).send, IsEmpty());
}

TEST(SessionReplayTest, PatienceFollowsTheLongestWait) {
  Worker w(0);
  w.Say(MakeReplay({"ab"}));
  for (int64_t wait_ms : {30, 10}) {
    w.Submit("a");
    w.now = w.now.PlusMs(wait_ms);
    w.Submit("b");
    w.Complete();
  }
  w.Submit("a");
  EXPECT_EQ(w.session.NextDeadline(), w.now.PlusMs(50 + 4 * 30));
  w.now = w.now.PlusMs(40);
  w.Submit("b");
  EXPECT_EQ(w.session.NextDeadline(), TimePoint::Infinite()) << "a wait for peers is not broken";
  w.now = w.now.PlusMs(100000);
  w.Complete();
  w.Submit("b");
  EXPECT_EQ(w.session.NextDeadline(), w.now.PlusMs(50 + 4 * 40));
}

TEST(SessionReplayTest, LessPatienceWhenTheScriptIsBlocked) {
  Worker w(0);
  w.Say(MakeReplay({"ab", "c"}));
  Effects effects;
  auto a = std::make_shared<Operation>(MakeRequest("a"), nullptr, nullptr);
  auto c = std::make_shared<Operation>(MakeRequest("c"), nullptr, nullptr);
  ASSERT_TRUE(w.session.Submit(c, w.now, &effects).ok());
  EXPECT_FALSE(w.session.Blocked(*c, w.now)) << "not of the head batch";
  ASSERT_TRUE(w.session.Submit(a, w.now, &effects).ok());
  w.now = w.now.PlusMs(100);
  EXPECT_TRUE(w.session.Blocked(*a, w.now));
  EXPECT_EQ(w.session.NextDeadline(), w.now.PlusMs(20));
  EXPECT_EQ(Sent<Break>(w.session.Tick(w.now.PlusMs(20))).reason, BreakReason::kIncomplete);
}

TEST(SessionReplayTest, SteppingNeedsNoLinkAndHelloTellsWhereItStands) {
  Worker w(0);
  const Replay replay = MakeReplay({"a", "b"});
  w.Say(replay);
  w.Submit("a");
  w.session.LinkDown();
  EXPECT_THAT(Texts(w.Complete().work), IsEmpty());
  EXPECT_THAT(Texts(w.Submit("b").work), ElementsAre("1/1 b"));
  EXPECT_THAT(w.Submit("x").send, IsEmpty()) << "no link; remembered";
  const Effects effects = w.session.LinkUp();
  const Hello& hello = Sent<Hello>(effects);
  EXPECT_EQ(hello.state, WorkerState::kReplay);
  EXPECT_EQ(hello.phase, 1u);
  EXPECT_EQ(hello.replay_index, 1u);
  EXPECT_NE(hello.replay_digest, 0u);
  EXPECT_EQ(hello.next, 2u);
  EXPECT_TRUE(hello.wants_break);
  EXPECT_EQ(hello.open_requests.size(), 1u);
  EXPECT_THAT(w.Hear(Welcome{2, 101, {}}).send, IsEmpty()) << "Hello has said it";
  w.Hear(Halt{kGeneration, 1});
  w.session.LinkDown();
  EXPECT_EQ(Sent<Hello>(w.session.LinkUp()).state, WorkerState::kHalted);
}

TEST(SessionReplayTest, ABreakBetweenHelloAndWelcomeIsSaidAfterIt) {
  Worker w(0);
  w.Say(MakeReplay({"a"}));
  w.session.LinkDown();
  EXPECT_FALSE(Sent<Hello>(w.session.LinkUp()).wants_break);
  EXPECT_THAT(w.Submit("x").send, IsEmpty());
  EXPECT_EQ(Sent<Break>(w.Hear(Welcome{2, 100, {}})).reason, BreakReason::kNew);
}

TEST(SessionReplayTest, RetainsWhatARestartedControllerNeeds) {
  Worker w(0);
  const auto retained = [&w] {
    w.session.LinkDown();
    const Effects effects = w.session.LinkUp();
    w.Hear(Welcome{Sent<Hello>(effects).session, 100, {}});
    return Sent<Hello>(effects).retained;
  };
  w.Submit("a");
  w.Say(MakeBatch("a"));
  w.Complete();
  w.Say(MakeReplay({"a"}));
  EXPECT_THAT(retained(), ElementsAre(1u, 2u));
  w.Hear(Stable{kGeneration, 2});
  EXPECT_THAT(retained(), ElementsAre(2u)) << "the replay lasts";
  w.Submit("a");
  w.Hear(Halt{kGeneration, 1});
  w.Say(Resume{2, {{0, {Rank(0)}}}});
  w.Hear(Stable{kGeneration, 3});
  EXPECT_THAT(retained(), ElementsAre(2u, 3u)) << "an instance is open";
  const Effects recalled = w.Hear(Recall{kGeneration, {3, 1, 2}, true});
  ASSERT_EQ(Sent<Recalled>(recalled).items.size(), 2u);
  EXPECT_EQ(Sent<Recalled>(recalled).items[0].index, 3u);
  EXPECT_EQ(std::get<Replay>(Sent<Recalled>(recalled).items[1].body).period.batches.size(), 1u);
  EXPECT_EQ(Sent<Recalled>(recalled).view.members.size(), 3u);
  w.Say(MakeEnter(2, 0, "a", {Rank(0)}));
  EXPECT_THAT(retained(), ElementsAre(4u));
}

}  // namespace
}  // namespace farandole::worker::session
