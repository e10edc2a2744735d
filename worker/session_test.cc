#include "worker/session.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace farandole {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using State = Session::State;

constexpr GenerationId kGeneration{7, 100};

std::shared_ptr<Operation> Op(const std::string& name) {
  Request request;
  request.name = name;
  request.signature.op = OpKind::kAllreduce;
  return std::make_shared<Operation>(request, nullptr, nullptr);
}

template <typename T>
const T& Sent(const Session::Effects& effects, size_t index = 0) {
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
    session_.Received(Welcome{1, 100, {}});
    ASSERT_TRUE(session_.Received(MakeView()).joined);
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

  Session::Effects Items(uint64_t index, ItemBody body) {
    return session_.Received(Item{kGeneration, 0, index, std::move(body)});
  }
  static Batch MakeBatch(const std::vector<std::string>& names) {
    Batch batch;
    for (const std::string& name : names) batch.entries.push_back({name, {}});
    return batch;
  }
  void Submit(const std::string& name) { ASSERT_TRUE(session_.Submit(Op(name)).ok()); }

  Session session_;
};

TEST_F(SessionTest, JoinsByHelloWelcomeView) {
  const Session::Effects hello = session_.LinkUp();
  EXPECT_EQ(Sent<Hello>(hello).session, 1u);
  EXPECT_EQ(Sent<Hello>(hello).rank, Rank(1));
  EXPECT_EQ(Sent<Hello>(hello).generation.number, 0u);
  EXPECT_FALSE(session_.answered());
  // A view without the welcome of this session belongs to another life.
  EXPECT_FALSE(session_.Received(MakeView()).joined);
  session_.Received(Welcome{1, 100, {Rank(0)}});
  EXPECT_THAT(session_.missing_ranks(), ElementsAre(Rank(0)));
  EXPECT_TRUE(session_.Received(MakeView()).joined);
  EXPECT_EQ(session_.position(), 1);
  EXPECT_EQ(session_.self().worker_incarnation, Incarnation(42));
}

TEST_F(SessionTest, AnnouncesInOrderAndSaysWhatIsDone) {
  Join();
  Submit("a");
  Submit("b");
  const Session::Effects first = session_.Flush();
  EXPECT_THAT(Names(Sent<Announce>(first).requests), ElementsAre("a", "b"));
  EXPECT_THAT(session_.Flush().send, IsEmpty());
  Session::Effects items = Items(3, MakeBatch({"b", "a"}));
  ASSERT_EQ(items.work.size(), 1u);
  EXPECT_EQ(items.work[0].instance.anchor, 3u);
  EXPECT_EQ(items.work[0].operations[0]->request.name, "b");
  session_.Completed(items.work[0]);
  Submit("a");
  const Session::Effects second = session_.Flush();
  EXPECT_EQ(Sent<Announce>(second).received_through, 3u);
  EXPECT_EQ(Sent<Announce>(second).completed_through, 3u);
}

TEST_F(SessionTest, NameIsTakenUntilAnswered) {
  Join();
  Submit("a");
  const Result twice = session_.Submit(Op("a"));
  EXPECT_EQ(twice.code, Code::kDuplicateName);
  EXPECT_THAT(twice.text, HasSubstr("\"a\""));
  Session::Effects items = Items(1, MakeBatch({"a"}));
  EXPECT_EQ(session_.Submit(Op("a")).code, Code::kDuplicateName);
  session_.Completed(items.work[0]);
  EXPECT_TRUE(session_.Submit(Op("a")).ok());
}

TEST_F(SessionTest, AcksAtOnceOnlyWhenOutOfWorkWithOpenRequests) {
  Join();
  Submit("a");
  Submit("b");
  session_.Flush();
  Session::Effects first = Items(1, MakeBatch({"a"}));
  Session::Effects second = Items(2, ErrorItem{0, {}, ErrorKind::kMismatch, ""});
  session_.Completed(first.work[0]);
  EXPECT_THAT(session_.AfterCompleted().send, IsEmpty()) << "item 2 is still to be done";
  session_.Completed(second.work[0]);
  const Session::Effects after = session_.AfterCompleted();
  EXPECT_EQ(Sent<Ack>(after).completed_through, 2u);
  EXPECT_FALSE(session_.AckDue());

  Session::Effects third = Items(3, MakeBatch({"b"}));
  session_.Completed(third.work[0]);
  EXPECT_THAT(session_.AfterCompleted().send, IsEmpty()) << "nothing is open";
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
  Session::Effects items = Items(5, MakeBatch({"a"}));
  session_.LinkDown();
  Submit("c");
  EXPECT_THAT(session_.Flush().send, IsEmpty());
  const Session::Effects hello = session_.LinkUp();
  EXPECT_EQ(Sent<Hello>(hello).session, 2u);
  EXPECT_EQ(Sent<Hello>(hello).generation, kGeneration);
  EXPECT_EQ(Sent<Hello>(hello).received_through, 5u);
  EXPECT_EQ(Sent<Hello>(hello).completed_through, 0u);
  EXPECT_THAT(Names(Sent<Hello>(hello).open_requests), ElementsAre("b", "c"));
  // Of the session before.
  EXPECT_THAT(Items(6, MakeBatch({"b"})).work, IsEmpty());
  Submit("d");
  const Session::Effects welcome = session_.Received(Welcome{2, 100, {}});
  EXPECT_THAT(Names(Sent<Announce>(welcome).requests), ElementsAre("d"));
  EXPECT_EQ(Items(6, MakeBatch({"b"})).work.size(), 1u);
}

TEST_F(SessionTest, IgnoresOtherGenerationsPhasesAndSmallerIncarnations) {
  Join();
  Submit("a");
  EXPECT_THAT(session_.Received(Item{{6, 100}, 0, 1, MakeBatch({"a"})}).work, IsEmpty());
  EXPECT_THAT(session_.Received(Item{kGeneration, 1, 1, MakeBatch({"a"})}).work, IsEmpty());
  EXPECT_FALSE(session_.Received(Removed{{6, 100}, RemovedKind::kPeerLost, "old"}).removed);
  session_.LinkDown();
  session_.LinkUp();
  session_.Received(Welcome{2, 99, {}});
  EXPECT_THAT(Items(1, MakeBatch({"a"})).work, IsEmpty());
  session_.Received(Welcome{2, 101, {}});
  EXPECT_EQ(Items(1, MakeBatch({"a"})).work.size(), 1u);
}

TEST_F(SessionTest, AnIndexTwiceOpensANewSession) {
  Join();
  Submit("a");
  Items(4, MakeBatch({"a"}));
  EXPECT_EQ(Sent<Hello>(Items(4, MakeBatch({"a"}))).session, 2u);
}

TEST_F(SessionTest, DispatchOfWhatIsNotOpenFailsTheGeneration) {
  Join();
  Submit("a");
  const Session::Effects effects = Items(1, MakeBatch({"a", "b"}));
  EXPECT_THAT(Sent<Failed>(effects).reason, HasSubstr("\"b\""));
  EXPECT_TRUE(effects.removed);
  EXPECT_THAT(effects.work, IsEmpty());
  ASSERT_EQ(effects.endings.size(), 1u);
  EXPECT_EQ(effects.endings[0]->request.name, "a");
  EXPECT_EQ(session_.end().code, Code::kInternal);
}

TEST_F(SessionTest, RemovedEndsOpenRequestsAndLaterOnes) {
  Join();
  Submit("a");
  Submit("b");
  session_.Flush();
  Items(1, MakeBatch({"a"}));
  const Session::Effects removed = session_.Received(Removed{kGeneration, RemovedKind::kPeerLost, "rank 0 died"});
  EXPECT_TRUE(removed.removed);
  ASSERT_EQ(removed.endings.size(), 1u) << "a belongs to the executor";
  EXPECT_EQ(removed.endings[0]->request.name, "b");
  const Result later = session_.Submit(Op("c"));
  EXPECT_EQ(later.code, Code::kPeerLost);
  EXPECT_EQ(later.text, "rank 0 died");
}

TEST_F(SessionTest, RefusedWhileJoining) {
  session_.LinkUp();
  EXPECT_TRUE(session_.Received(Removed{{}, RemovedKind::kRefused, "rank 1 is held by pid 5"}).removed);
  EXPECT_EQ(session_.end().code, Code::kRefused);
  EXPECT_EQ(session_.end().text, "rank 1 is held by pid 5");
}

TEST_F(SessionTest, BrokenWaitsForTheVerdict) {
  Join();
  Submit("a");
  const Session::Effects failed = session_.DataPlaneFailed("connection reset", Rank(0));
  EXPECT_EQ(Sent<Failed>(failed).suspect_rank, Rank(0));
  EXPECT_EQ(session_.state(), State::kBroken);
  EXPECT_FALSE(failed.removed);
  EXPECT_TRUE(session_.Submit(Op("b")).ok());
  const Session::Effects removed = session_.Received(Removed{kGeneration, RemovedKind::kPeerLost, "rank 0 was killed"});
  EXPECT_EQ(removed.endings.size(), 2u);
  EXPECT_EQ(session_.end().text, "rank 0 was killed");
}

TEST_F(SessionTest, BrokenWithoutVerdictEndsWithTheLocalReason) {
  Join();
  Submit("a");
  session_.DataPlaneFailed("connection reset", Rank(0));
  EXPECT_EQ(session_.GiveUp({Code::kPeerLost, "connection reset"}).endings.size(), 1u);
  EXPECT_EQ(session_.end().text, "connection reset");
}

TEST_F(SessionTest, LeaveExecutesWhatWasDispatchedAndEndsTheRest) {
  Join();
  Submit("a");
  Submit("b");
  session_.Flush();
  EXPECT_EQ(Sent<Leave>(session_.BeginLeave()).generation, kGeneration);
  EXPECT_EQ(session_.Submit(Op("c")).code, Code::kShutDown);
  EXPECT_EQ(Items(1, MakeBatch({"a"})).work.size(), 1u);
  Session::Effects done = Items(2, LeaveDone{});
  ASSERT_EQ(done.work.size(), 1u);
  session_.Completed(done.work[0]);
  EXPECT_EQ(session_.state(), State::kLeft);
  const Session::Effects after = session_.AfterCompleted();
  ASSERT_EQ(after.endings.size(), 1u);
  EXPECT_EQ(after.endings[0]->request.name, "b");
  EXPECT_EQ(session_.end().code, Code::kShutDown);
}

TEST_F(SessionTest, LeaveIsSaidAgainInANewSession) {
  Join();
  session_.BeginLeave();
  session_.LinkDown();
  EXPECT_TRUE(Sent<Hello>(session_.LinkUp()).leaving);
}

TEST_F(SessionTest, LeaveWhileJoiningTakesTheHelloBack) {
  session_.LinkUp();
  const Session::Effects effects = session_.BeginLeave();
  EXPECT_EQ(Sent<Leave>(effects).generation.number, 0u);
  EXPECT_EQ(session_.state(), State::kRemoved);
}

}  // namespace
}  // namespace farandole
