#include "worker/schedule/schedule_table.h"

#include <cstdio>
#include <fstream>
#include <string>

#include "gtest/gtest.h"

namespace farandole::worker::schedule {
namespace {

Algorithm ChooseFor(const ScheduleTable& table, int64_t bytes, int members, bool ordered = false) {
  return table.Choose(ScheduledOp::kAllreduce, bytes, members, members <= 64, ordered);
}

TEST(ScheduleTableTest, BuiltInServesEverySizeAndNumberOfMembers) {
  const ScheduleTable table;
  EXPECT_EQ(ChooseFor(table, 4, 2), Algorithm::kExchange);
  EXPECT_EQ(ChooseFor(table, 4, 9), Algorithm::kDoubling);
  EXPECT_EQ(ChooseFor(table, 65536, 4), Algorithm::kDoubling);
  EXPECT_EQ(ChooseFor(table, 65537, 4), Algorithm::kDirect);
  EXPECT_EQ(ChooseFor(table, 1 << 30, 2), Algorithm::kRing);
  EXPECT_EQ(ChooseFor(table, 1 << 20, 33), Algorithm::kHalving);
  EXPECT_EQ(ChooseFor(table, int64_t{1} << 40, 1000), Algorithm::kRing);
}

TEST(ScheduleTableTest, WithoutAMeshOnlyWhatNeedsNone) {
  for (const ScheduledOp op : {ScheduledOp::kAllreduce, ScheduledOp::kReducescatter, ScheduledOp::kAllgather}) {
    for (int64_t bytes : {0, 100, 100000, 10000000}) {
      EXPECT_FALSE(NeedsMesh(ScheduleTable().Choose(op, bytes, 4, false))) << Name(op) << " " << bytes;
      EXPECT_FALSE(NeedsMesh(ScheduleTable().Choose(op, bytes, 4, false, true))) << Name(op) << " " << bytes;
    }
  }
}

TEST(ScheduleTableTest, OrderedOnlyWhatCombinesInOrder) {
  const auto table = ScheduleTable::Parse("allreduce 0 any 1 any ring", "test");
  ASSERT_TRUE(table.ok());
  for (int members : {2, 3, 17, 64}) {
    for (int64_t bytes : {4, 10000, 10000000}) {
      EXPECT_TRUE(NeedsMesh(ChooseFor(ScheduleTable(), bytes, members, true))) << members << " " << bytes;
      EXPECT_TRUE(NeedsMesh(ChooseFor(*table, bytes, members, true))) << members << " " << bytes;
      EXPECT_EQ(ChooseFor(*table, bytes, members, false), Algorithm::kRing);
    }
  }
}

TEST(ScheduleTableTest, TheFirstRowThatFitsCountsAndTheBuiltInOnesFollow) {
  const auto table = ScheduleTable::Parse(
      "# mine\n"
      "\n"
      "allreduce 100 200 2 4 halving  # a few\r\n"
      "allreduce\t150 any 2 any\tdoubling\n"
      "allgather 0 any 1 any ring",
      "test");
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(ChooseFor(*table, 150, 4), Algorithm::kHalving);
  EXPECT_EQ(ChooseFor(*table, 150, 5), Algorithm::kDoubling);
  EXPECT_EQ(ChooseFor(*table, 99, 4), Algorithm::kExchange);
  EXPECT_EQ(table->Choose(ScheduledOp::kAllgather, 4, 4, true), Algorithm::kRing);
  EXPECT_EQ(table->Choose(ScheduledOp::kReducescatter, 4, 4, true), Algorithm::kDirect);
}

TEST(ScheduleTableTest, TextIsParsedBack) {
  const ScheduleTable table;
  const auto again = ScheduleTable::Parse(table.Text(), "test");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->Text().find(table.Text()), 0u);
  const auto other = ScheduleTable::Parse("allreduce 0 1 1 1 ring", "test");
  EXPECT_NE(table.Fingerprint(), other->Fingerprint());
  EXPECT_EQ(table.Fingerprint(), ScheduleTable().Fingerprint());
}

TEST(ScheduleTableTest, ErrorsNameTheLineAndWhatIsAllowed) {
  const auto error = [](const std::string& line) {
    return std::string(ScheduleTable::Parse("# table\n" + line, "mine.txt").status().message());
  };
  EXPECT_EQ(error("allreduce 0 1 ring"),
            "mine.txt, line 2: 4 fields instead of 6: operation, from bytes, to bytes, from members, to members, "
            "schedule");
  EXPECT_EQ(error("barrier 0 1 1 2 ring"),
            "mine.txt, line 2: there is no operation \"barrier\", only allreduce, reducescatter, allgather");
  EXPECT_EQ(error("allgather 0 1 1 2 halving"),
            "mine.txt, line 2: there is no schedule of allgather \"halving\", only direct, ring");
  for (const char* range : {"2 1", "x 1", "0 y", "-1 4", "any 4", "0 99999999999999999999"}) {
    EXPECT_NE(error("allreduce " + std::string(range) + " 1 2 ring").find("is no range of bytes"), std::string::npos);
  }
  EXPECT_NE(error("allreduce 0 1 1 9999999999 ring").find("is no range of members"), std::string::npos);
}

TEST(ScheduleTableTest, IsReadFromAFile) {
  const std::string path = std::string(getenv("TEST_TMPDIR")) + "/table";
  std::ofstream(path) << "allreduce 0 any 1 any halving\n";
  const auto table = ScheduleTable::Load(path);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_EQ(ChooseFor(*table, 4, 2), Algorithm::kHalving);
  EXPECT_TRUE(absl::IsNotFound(ScheduleTable::Load(path + ".missing").status()));
  EXPECT_EQ(ScheduleTable::Load("")->Fingerprint(), ScheduleTable().Fingerprint());
}

}  // namespace
}  // namespace farandole::worker::schedule
