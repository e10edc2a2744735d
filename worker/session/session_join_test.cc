// A session inside join().
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/session/session_testing.h"

namespace farandole::worker::session {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

Request MakeJoin() {
  Request join = MakeRequest("join.noname");
  join.signature.op = OpKind::kJoin;
  return join;
}

TEST(SessionJoinTest, AJoinedWorkerAddsZeros) {
  Worker w(0);
  w.Submit(MakeJoin());
  const Signature signature = MakeRequest("a", {4}).signature;
  Batch zeros = MakeBatch("a");
  zeros.entries[0].signature = signature;
  Effects batch = w.Say(zeros);
  ASSERT_EQ(batch.work.size(), 1u);
  EXPECT_EQ(batch.work[0].operations[0], nullptr);
  EXPECT_EQ(batch.work[0].signatures[0], signature);
  w.Complete();
  const Effects error = w.Say(ErrorItem{0, {"g"}, ErrorKind::kMismatch, "no zeros for an allgather"});
  ASSERT_EQ(error.work.size(), 1u);
  EXPECT_THAT(error.work[0].operations, IsEmpty());
  w.Complete();
  Effects done = w.Say(JoinDone{Rank(2)});
  ASSERT_EQ(done.work.size(), 1u);
  EXPECT_EQ(done.work[0].operations[0]->value, 2);
  EXPECT_TRUE(w.Say(zeros).removed) << "it adds zeros no more";
}

TEST(SessionJoinTest, AJoinThatEndedWithAnErrorAddsNoZeros) {
  Worker w(0);
  w.Submit(MakeJoin());
  w.Say(ErrorItem{0, {"join.noname"}, ErrorKind::kLeft, "rank 2 has left"});
  w.Complete();
  Batch zeros = MakeBatch("a");
  zeros.entries[0].signature = MakeRequest("a", {4}).signature;
  EXPECT_TRUE(w.Say(zeros).removed);
}

// It has submitted a, and will announce it.
TEST(SessionJoinTest, ZerosDoNotStandForWhatIsTakenBack) {
  for (const bool taken_back : {false, true}) {
    Worker w(0, {2, 2});
    w.Say(MakeReplay({"a", "b"}));
    w.Submit("a");
    w.Hear(Halt{kGeneration, 1});
    w.Say(Resume{1, {{0, {Rank(0)}}}});
    w.Submit(MakeJoin());
    w.Say(Withdraw{1, 0, {0}, "nobody comes"});
    if (taken_back) {
      const Announce announced = Sent<Announce>(w.session.Withdrawn(w.in_flight[0], w.now));
      ASSERT_EQ(announced.requests.size(), 2u) << "of the join and of a";
      w.in_flight.clear();
    }
    Batch batch = MakeBatch("a");
    batch.entries[0].signature = MakeRequest("a").signature;
    const Effects effects = w.Say(batch);
    EXPECT_EQ(effects.work.size(), taken_back ? 1 : 0);
    EXPECT_EQ(effects.removed, !taken_back);
  }
}

std::vector<std::string> TakenBack(const Effects& effects) {
  std::vector<std::string> texts;
  for (const RequestName& each : Sent<Hello>(effects).taking_back) {
    texts.push_back(std::to_string(each.process_set) + " " + each.name);
  }
  return texts;
}

// A controller that is started again hears of it from nobody else.
TEST(SessionJoinTest, HelloSaysWhatIsBeingTakenBack) {
  Worker w(0, {2, 2});
  w.Say(MakeReplay({"ab", "c"}));
  w.Submit("a");
  w.Submit("b");
  w.Submit("c");
  w.Hear(Halt{kGeneration, 1});
  w.Say(Resume{1, {{0, {Rank(0)}}, {1, {Rank(0)}}}});
  EXPECT_THAT(TakenBack(w.session.AskAgain()), IsEmpty());
  w.Hear(Welcome{2, 100, {}});
  w.Say(Withdraw{1, 0, {0, 1}, "nobody comes"});
  EXPECT_THAT(TakenBack(w.session.AskAgain()), ElementsAre("0 a", "0 b", "0 c"));
  w.session.Withdrawn(w.in_flight[0], w.now);
  const Effects effects = w.session.AskAgain();
  const Hello& hello = Sent<Hello>(effects);
  EXPECT_THAT(TakenBack(effects), ElementsAre("0 c"));
  EXPECT_EQ(hello.open_requests.size(), 2u) << "a and b";
}

}  // namespace
}  // namespace farandole::worker::session
