#include "agent/core/worker_table.h"

#include <gtest/gtest.h>

namespace farandole::agent::core {
namespace {

Worker& AddReporting(WorkerTable* table, uint64_t incarnation, uint64_t next) {
  Worker& worker = table->Add(Incarnation(incarnation), 1);
  worker.said_hello = true;
  worker.report.generation = {1, 7};
  worker.report.worker_incarnation = worker.incarnation;
  worker.report.next = next;
  return worker;
}

TEST(WorkerTableTest, ReportsAreTakenWhenTheyDifferFromWhatTheControllerHas) {
  WorkerTable table;
  Worker& first = AddReporting(&table, 1, 10);
  AddReporting(&table, 2, 20);
  EXPECT_EQ(table.TakeReports().size(), 2u);
  EXPECT_TRUE(table.TakeReports().empty());
  first.report.next = 11;
  const std::vector<WorkerReport> changed = table.TakeReports();
  ASSERT_EQ(changed.size(), 1u);
  EXPECT_EQ(changed[0].worker_incarnation, Incarnation(1));
  EXPECT_EQ(changed[0].next, 11u);
}

TEST(WorkerTableTest, AnotherLinkIsToldEverythingAgainOnceItsWorkersSaidHello) {
  WorkerTable table;
  AddReporting(&table, 1, 10);
  AddReporting(&table, 2, 20).report.generation = {};
  ASSERT_EQ(table.TakeReports().size(), 1u);
  table.ForgetReported();
  table.Find(Incarnation(1))->said_hello = false;
  EXPECT_TRUE(table.TakeReports().empty());
  table.Find(Incarnation(1))->said_hello = true;
  EXPECT_EQ(table.TakeReports().size(), 1u);
}

TEST(WorkerTableTest, WhoWasLeavingAndEndsWellMayHaveFinished) {
  Worker worker;
  worker.elastic = worker.leaving = true;
  EXPECT_FALSE(MayHaveFinished(worker, 0, false)) << "it has given init() up";
  worker.rank = Rank(1);
  EXPECT_TRUE(MayHaveFinished(worker, 0, false));
  EXPECT_FALSE(MayHaveFinished(worker, 1, false));
  EXPECT_FALSE(MayHaveFinished(worker, 0, true)) << "it leaves because it was told to end";
  worker.leaving = false;
  EXPECT_FALSE(MayHaveFinished(worker, 0, false)) << "it has ended without leaving";
  worker.left = true;
  EXPECT_TRUE(MayHaveFinished(worker, 1, true)) << "its code is looked at later";
  worker.elastic = false;
  EXPECT_FALSE(MayHaveFinished(worker, 0, false));
}

}  // namespace
}  // namespace farandole::agent::core
