#include "worker/session/in_flight.h"

#include "gtest/gtest.h"

namespace farandole::worker::session {
namespace {

Work MakeWork(uint64_t item, collective::Instance instance, Work::Kind kind = Work::Kind::kBatch) {
  Work work;
  work.kind = kind;
  work.item = item;
  work.instance = instance;
  return work;
}

TEST(InFlightTest, CompletedThroughWaitsForTheOldest) {
  InFlight in_flight;
  const Work a = MakeWork(2, {1, 2, 0}), b = MakeWork(5, {1, 5, 0});
  in_flight.Give(a);
  in_flight.Give(b);
  in_flight.Note(6);
  EXPECT_EQ(in_flight.batches(false), 2u);
  in_flight.Done(b);
  EXPECT_EQ(in_flight.completed_through(), 0u);
  in_flight.Done(a);
  EXPECT_EQ(in_flight.completed_through(), 6u);
  EXPECT_EQ(in_flight.batches(false), 0u);
}

TEST(InFlightTest, BatchesThatNotAllHaveStartedHoldUpNoItemButTheirEnter) {
  InFlight in_flight;
  const Work replayed = MakeWork(0, {1, 3, 7});
  in_flight.Give(replayed);
  in_flight.NoteResume(4, 3, {7});
  EXPECT_EQ(in_flight.completed_through(), 4u);
  in_flight.Note(5, {1, 3, 7});
  in_flight.Note(6, {1, 3, 6});
  EXPECT_EQ(in_flight.completed_through(), 4u);
  in_flight.Done(replayed);
  EXPECT_EQ(in_flight.completed_through(), 6u) << "3/6 was complete before its Enter";
}

TEST(InFlightTest, AResumeWaitsForTheBatchesThatAllHaveStarted) {
  InFlight in_flight;
  const Work before = MakeWork(2, {1, 2, 0}), first = MakeWork(0, {1, 3, 6}), other_set = MakeWork(0, {1, 3, 7});
  in_flight.Give(before);
  in_flight.Note(3);
  for (const Work& work : {first, other_set, MakeWork(0, {1, 3, 8})}) in_flight.Give(work);
  in_flight.NoteResume(4, 3, {8});
  in_flight.Note(5);
  in_flight.Done(other_set);
  EXPECT_EQ(in_flight.completed_through(), 0u);
  in_flight.Done(before);
  EXPECT_EQ(in_flight.completed_through(), 3u);
  in_flight.Done(first);
  EXPECT_EQ(in_flight.completed_through(), 5u);
}

TEST(InFlightTest, CountsBatchesOfEachKindAndKnowsWhatIsNone) {
  InFlight in_flight;
  const Work barrier = MakeWork(1, {1, 1, 0}, Work::Kind::kBarrierDone);
  Work on_accelerator = MakeWork(2, {1, 2, 0});
  on_accelerator.final = true;
  EXPECT_TRUE(in_flight.only_batches());
  for (const Work& work : {barrier, on_accelerator, MakeWork(3, {1, 3, 0}), MakeWork(4, {1, 4, 0})}) {
    in_flight.Give(work);
  }
  EXPECT_FALSE(in_flight.only_batches());
  EXPECT_EQ(in_flight.batches(true), 1u);
  EXPECT_EQ(in_flight.batches(false), 2u);
  in_flight.Done(barrier);
  EXPECT_TRUE(in_flight.only_batches());
  in_flight.Done(on_accelerator);
  in_flight.Done(on_accelerator);
  EXPECT_EQ(in_flight.batches(true), 0u);
  EXPECT_EQ(in_flight.batches(false), 2u);
}

}  // namespace
}  // namespace farandole::worker::session
