#include "worker/session/session.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole::worker::session {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using State = Session::State;

constexpr GenerationId kGeneration{7, 100};
constexpr TimePoint kNow(5000000);

std::shared_ptr<Operation> Op(const std::string& name) {
  Request request;
  request.name = name;
  request.signature.op = OpKind::kAllreduce;
  return std::make_shared<Operation>(request, nullptr, nullptr);
}

template <typename T>
const T& Sent(const Effects& effects, size_t index = 0) {
  return std::get<T>(effects.send.at(index));
}

std::vector<std::string> Names(const std::vector<Request>& requests) {
  std::vector<std::string> names;
  for (const Request& request : requests) names.push_back(request.name);
  return names;
}

class SessionTest : public testing::Test {
 protected:
  SessionTest() : session_({Incarnation(42), 4711, Rank(1), 2}) {}

  void Join() {
    session_.LinkUp();
    Received(Welcome{1, 100, {}});
    ASSERT_TRUE(Received(MakeView()).joined);
  }

  static View MakeView() {
    View view;
    view.generation = kGeneration;
    view.members.resize(2);
    view.members[0].rank = Rank(0);
    view.members[0].worker_incarnation = Incarnation(41);
    view.members[1].rank = Rank(1);
    view.members[1].worker_incarnation = Incarnation(42);
    return view;
  }

  Effects Received(WorkerDown message) { return session_.Received(std::move(message), kNow); }
  Effects Items(uint64_t index, ItemBody body) { return Received(Item{kGeneration, 0, index, std::move(body)}); }
  static Batch MakeBatch(const std::vector<std::string>& names) {
    Batch batch;
    for (const std::string& name : names) batch.entries.push_back({name, {}, 0, {}});
    return batch;
  }
  completion::Result Submitted(std::shared_ptr<Operation> operation) {
    Effects effects;
    completion::Result result = session_.Submit(std::move(operation), kNow, &effects);
    EXPECT_TRUE(effects.send.empty() && effects.work.empty());
    return result;
  }
  void Submit(const std::string& name) { ASSERT_TRUE(Submitted(Op(name)).ok()); }

  Session session_;
};

TEST_F(SessionTest, JoinsByHelloWelcomeView) {
  const Effects hello = session_.LinkUp();
  EXPECT_EQ(Sent<Hello>(hello).session, 1u);
  EXPECT_EQ(Sent<Hello>(hello).rank, Rank(1));
  EXPECT_EQ(Sent<Hello>(hello).generation.number, 0u);
  EXPECT_FALSE(session_.answered());
  // A view without the welcome of this session belongs to another life.
  EXPECT_FALSE(Received(MakeView()).joined);
  Received(Welcome{1, 100, {Rank(0)}});
  EXPECT_THAT(session_.missing_ranks(), ElementsAre(Rank(0)));
  EXPECT_TRUE(Received(MakeView()).joined);
  EXPECT_EQ(session_.position(), 1);
  EXPECT_EQ(session_.self().worker_incarnation, Incarnation(42));
}

TEST_F(SessionTest, KeepsTheLastNoticeOfItsMembership) {
  Join();
  EXPECT_EQ(session_.membership_notice().added, 0u);
  Received(MembershipNotice{kGeneration, 2, 1});
  EXPECT_EQ(session_.membership_notice().added, 2u);
  EXPECT_EQ(session_.membership_notice().removed, 1u);
  Received(MembershipNotice{{kGeneration.number - 1, 100}, 9, 9});
  EXPECT_EQ(session_.membership_notice().added, 2u) << "of another membership";
  Received(MembershipNotice{kGeneration, 0, 0});
  EXPECT_EQ(session_.membership_notice().added, 0u);
}

TEST_F(SessionTest, RetiredWhileJoiningHasItsOwnCode) {
  session_.LinkUp();
  Received(Welcome{1, 100, {}});
  const Effects effects = Received(Removed{{}, RemovedKind::kRetired, "why"});
  EXPECT_THAT(effects.send, IsEmpty()) << "nothing to take back";
  EXPECT_EQ(session_.end().code, completion::Code::kRetired);
}

TEST_F(SessionTest, AnnouncesInOrderAndSaysWhatIsDone) {
  Join();
  Submit("a");
  Submit("b");
  const Effects first = session_.Flush();
  EXPECT_THAT(Names(Sent<Announce>(first).requests), ElementsAre("a", "b"));
  EXPECT_THAT(session_.Flush().send, IsEmpty());
  Effects items = Items(3, MakeBatch({"b", "a"}));
  ASSERT_EQ(items.work.size(), 1u);
  EXPECT_EQ(items.work[0].instance.anchor, 3u);
  EXPECT_EQ(items.work[0].operations[0]->request.name, "b");
  session_.Completed(items.work[0]);
  Submit("a");
  const Effects second = session_.Flush();
  EXPECT_EQ(Sent<Announce>(second).received_through, 3u);
  EXPECT_EQ(Sent<Announce>(second).completed_through, 3u);
}

TEST_F(SessionTest, NameIsTakenUntilAnswered) {
  Join();
  Submit("a");
  const completion::Result twice = Submitted(Op("a"));
  EXPECT_EQ(twice.code, completion::Code::kDuplicateName);
  EXPECT_THAT(twice.text, HasSubstr("\"a\""));
  Effects items = Items(1, MakeBatch({"a"}));
  EXPECT_EQ(Submitted(Op("a")).code, completion::Code::kDuplicateName);
  session_.Completed(items.work[0]);
  EXPECT_TRUE(Submitted(Op("a")).ok());
}

TEST_F(SessionTest, AGroupIsTakenWholeOrNotAtAll) {
  Join();
  Submit("b");
  Effects effects;
  const std::shared_ptr<Operation> group[] = {Op("a"), Op("b"), Op("c")};
  EXPECT_EQ(session_.Submit(group, 3, kNow, &effects).code, completion::Code::kDuplicateName);
  EXPECT_THAT(Names(Sent<Announce>(session_.Flush()).requests), ElementsAre("b"));
  const std::shared_ptr<Operation> others[] = {Op("a"), Op("c")};
  EXPECT_TRUE(session_.Submit(others, 2, kNow, &effects).ok());
  EXPECT_THAT(Names(Sent<Announce>(session_.Flush()).requests), ElementsAre("a", "c"));
}

TEST_F(SessionTest, AcksAtOnceOnlyWhenOutOfWorkWithOpenRequests) {
  Join();
  Submit("a");
  Submit("b");
  session_.Flush();
  Effects first = Items(1, MakeBatch({"a"}));
  Effects second = Items(2, ErrorItem{0, {}, ErrorKind::kMismatch, ""});
  session_.Completed(first.work[0]);
  EXPECT_THAT(session_.AfterCompleted(kNow).send, IsEmpty()) << "item 2 is still to be done";
  session_.Completed(second.work[0]);
  const Effects after = session_.AfterCompleted(kNow);
  EXPECT_EQ(Sent<Ack>(after).completed_through, 2u);
  EXPECT_FALSE(session_.AckDue());

  Effects third = Items(3, MakeBatch({"b"}));
  session_.Completed(third.work[0]);
  EXPECT_THAT(session_.AfterCompleted(kNow).send, IsEmpty()) << "nothing is open";
  EXPECT_TRUE(session_.AckDue());
  EXPECT_EQ(Sent<Ack>(session_.SendAck()).received_through, 3u);
}

TEST_F(SessionTest, AcksEvery64Items) {
  Join();
  for (uint64_t i = 1; i < 64; ++i) EXPECT_THAT(Items(i, ErrorItem{}).send, IsEmpty());
  EXPECT_EQ(Sent<Ack>(Items(64, ErrorItem{})).received_through, 64u);
  EXPECT_THAT(Items(65, ErrorItem{}).send, IsEmpty());
}

TEST_F(SessionTest, NewSessionTellsEverythingAndIgnoresTheOld) {
  Join();
  Submit("a");
  Submit("b");
  session_.Flush();
  Effects items = Items(5, MakeBatch({"a"}));
  session_.LinkDown();
  Submit("c");
  EXPECT_THAT(session_.Flush().send, IsEmpty());
  const Effects hello = session_.LinkUp();
  EXPECT_EQ(Sent<Hello>(hello).session, 2u);
  EXPECT_EQ(Sent<Hello>(hello).generation, kGeneration);
  EXPECT_EQ(Sent<Hello>(hello).received_through, 5u);
  EXPECT_EQ(Sent<Hello>(hello).completed_through, 0u);
  EXPECT_THAT(Names(Sent<Hello>(hello).open_requests), ElementsAre("b", "c"));
  // Of the session before.
  EXPECT_THAT(Items(6, MakeBatch({"b"})).work, IsEmpty());
  Submit("d");
  const Effects welcome = Received(Welcome{2, 100, {}});
  EXPECT_THAT(Names(Sent<Announce>(welcome).requests), ElementsAre("d"));
  EXPECT_EQ(Items(6, MakeBatch({"b"})).work.size(), 1u);
}

TEST_F(SessionTest, IgnoresOtherGenerationsAndSmallerIncarnations) {
  Join();
  Submit("a");
  EXPECT_THAT(Received(Item{{6, 100}, 0, 1, MakeBatch({"a"})}).work, IsEmpty());
  EXPECT_FALSE(Received(Removed{{6, 100}, RemovedKind::kPeerLost, "old"}).removed);
  session_.LinkDown();
  session_.LinkUp();
  Received(Welcome{2, 99, {}});
  EXPECT_THAT(Items(1, MakeBatch({"a"})).work, IsEmpty());
  Received(Welcome{2, 101, {}});
  EXPECT_EQ(Items(1, MakeBatch({"a"})).work.size(), 1u);
}

TEST_F(SessionTest, AnIndexTwiceOpensANewSession) {
  Join();
  Submit("a");
  Items(4, MakeBatch({"a"}));
  EXPECT_EQ(Sent<Hello>(Items(4, MakeBatch({"a"}))).session, 2u);
}

TEST_F(SessionTest, AnItemOfAnotherPhaseOpensANewSessionAndAFewOfThemEndIt) {
  Join();
  Submit("a");
  for (uint64_t session = 2; session <= 4; ++session) {
    const Effects effects = Received(Item{kGeneration, 1, 1, MakeBatch({"a"})});
    EXPECT_EQ(Sent<Hello>(effects).session, session);
    EXPECT_THAT(effects.work, IsEmpty());
    Received(Welcome{session, 100, {}});
  }
  const Effects last = Received(Item{kGeneration, 1, 1, MakeBatch({"a"})});
  EXPECT_THAT(Sent<Failed>(last).reason, HasSubstr("item 1 of phase 1"));
  EXPECT_TRUE(last.removed);
  EXPECT_EQ(last.endings.size(), 1u);
}

TEST_F(SessionTest, DispatchOfWhatIsNotOpenFailsTheGeneration) {
  Join();
  Submit("a");
  const Effects effects = Items(1, MakeBatch({"a", "b"}));
  EXPECT_THAT(Sent<Failed>(effects).reason, HasSubstr("\"b\""));
  EXPECT_TRUE(effects.removed);
  EXPECT_THAT(effects.work, IsEmpty());
  ASSERT_EQ(effects.endings.size(), 1u);
  EXPECT_EQ(effects.endings[0]->request.name, "a");
  EXPECT_EQ(session_.end().code, completion::Code::kInternal);
}

TEST_F(SessionTest, ABatchOfNothingFailsTheGeneration) {
  Join();
  const Effects effects = Items(1, MakeBatch({}));
  EXPECT_THAT(Sent<Failed>(effects).reason, HasSubstr("without tensors"));
  EXPECT_THAT(effects.work, IsEmpty());
}

TEST_F(SessionTest, RemovedEndsOpenRequestsAndLaterOnes) {
  Join();
  Submit("a");
  Submit("b");
  session_.Flush();
  Items(1, MakeBatch({"a"}));
  const Effects removed = Received(Removed{kGeneration, RemovedKind::kPeerLost, "rank 0 died"});
  EXPECT_TRUE(removed.removed);
  ASSERT_EQ(removed.endings.size(), 1u) << "a belongs to the executor";
  EXPECT_EQ(removed.endings[0]->request.name, "b");
  const completion::Result later = Submitted(Op("c"));
  EXPECT_EQ(later.code, completion::Code::kPeerLost);
  EXPECT_EQ(later.text, "rank 0 died");
}

TEST_F(SessionTest, RefusedWhileJoining) {
  session_.LinkUp();
  EXPECT_TRUE(Received(Removed{{}, RemovedKind::kRefused, "rank 1 is held by pid 5"}).removed);
  EXPECT_EQ(session_.end().code, completion::Code::kRefused);
  EXPECT_EQ(session_.end().text, "rank 1 is held by pid 5");
}

TEST_F(SessionTest, BrokenWaitsForTheVerdict) {
  Join();
  Submit("a");
  const Effects failed = session_.DataPlaneFailed("connection reset", Rank(0));
  EXPECT_EQ(Sent<Failed>(failed).suspect_rank, Rank(0));
  EXPECT_EQ(session_.state(), State::kBroken);
  EXPECT_FALSE(failed.removed);
  EXPECT_TRUE(Submitted(Op("b")).ok());
  const Effects removed = Received(Removed{kGeneration, RemovedKind::kPeerLost, "rank 0 was killed"});
  EXPECT_EQ(removed.endings.size(), 2u);
  EXPECT_EQ(session_.end().text, "rank 0 was killed");
}

TEST_F(SessionTest, BrokenWithoutVerdictEndsWithTheLocalReason) {
  Join();
  Submit("a");
  session_.DataPlaneFailed("connection reset", Rank(0));
  EXPECT_EQ(session_.GiveUp({completion::Code::kPeerLost, "connection reset"}).endings.size(), 1u);
  EXPECT_EQ(session_.end().text, "connection reset");
}

TEST_F(SessionTest, LeaveExecutesWhatWasDispatchedAndEndsTheRest) {
  Join();
  Submit("a");
  Submit("b");
  session_.Flush();
  EXPECT_EQ(Sent<Leave>(session_.BeginLeave(kNow)).generation, kGeneration);
  EXPECT_EQ(Submitted(Op("c")).code, completion::Code::kShutDown);
  Effects batch = Items(1, MakeBatch({"a"}));
  ASSERT_EQ(batch.work.size(), 1u);
  EXPECT_THAT(batch.send, IsEmpty());
  session_.Completed(batch.work[0]);
  EXPECT_EQ(Sent<Ack>(session_.AfterCompleted(kNow)).completed_through, 1u);
  EXPECT_THAT(session_.AfterCompleted(kNow).send, IsEmpty());
  Effects done = Items(2, LeaveDone{});
  ASSERT_EQ(done.work.size(), 1u);
  session_.Completed(done.work[0]);
  EXPECT_EQ(session_.state(), State::kLeft);
  const Effects after = session_.AfterCompleted(kNow);
  ASSERT_EQ(after.endings.size(), 1u);
  EXPECT_EQ(after.endings[0]->request.name, "b");
  EXPECT_EQ(session_.end().code, completion::Code::kShutDown);
}

TEST_F(SessionTest, LeaveTellsHowFarItHasCome) {
  Join();
  Submit("a");
  Submit("b");
  session_.Completed(Items(1, MakeBatch({"a"})).work[0]);
  const Effects batch = Items(2, MakeBatch({"b"}));
  const Effects left = session_.BeginLeave(kNow);
  EXPECT_EQ(Sent<Leave>(left).received_through, 2u);
  EXPECT_EQ(Sent<Leave>(left).completed_through, 1u);
  // The others wait for its part of the second one.
  EXPECT_EQ(Sent<Failed>(session_.GiveUp({completion::Code::kShutDown, "no answer"})).generation, kGeneration);
}

TEST_F(SessionTest, LeaveIsSaidAgainInANewSession) {
  Join();
  session_.BeginLeave(kNow);
  session_.LinkDown();
  EXPECT_TRUE(Sent<Hello>(session_.LinkUp()).leaving);
}

TEST_F(SessionTest, LeaveWhileJoiningTakesTheHelloBack) {
  session_.LinkUp();
  const Effects effects = session_.BeginLeave(kNow);
  EXPECT_EQ(Sent<Leave>(effects).generation.number, 0u);
  EXPECT_EQ(session_.state(), State::kRemoved);
}

}  // namespace
}  // namespace farandole::worker::session
