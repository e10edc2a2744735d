#include "perf/data/tune.h"

#include <gtest/gtest.h>

#include <cstdlib>

namespace farandole::perf::data {
namespace {

constexpr int64_t kAnyBytes = worker::schedule::ScheduleTable::kAnyBytes;

TEST(TuneTest, RowsFollowTheQuickestAndCoverAllSizes) {
  const std::vector<int64_t> sizes = {1024, 4096, 16384, 65536, 262144};
  const std::vector<worker::schedule::Algorithm> algorithms = {worker::schedule::Algorithm::kExchange,
                                                               worker::schedule::Algorithm::kRing,
                                                               worker::schedule::Algorithm::kHalving};
  const std::vector<std::vector<double>> us = {{5, 9, 97, 400, 1600}, {10, 10, 94, 90, 91}, {20, 20, 99, 99, 90}};
  const std::vector<worker::schedule::ScheduleRow> rows =
      QuickestRows(worker::schedule::ScheduledOp::kAllreduce, 3, 4, sizes, algorithms, us);
  // At 16384 and 262144 others are quicker, by less than measurements differ by.
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(worker::schedule::ToString(rows[0]),
            worker::schedule::ToString(
                {worker::schedule::ScheduledOp::kAllreduce, 0, 32768, 3, 4, worker::schedule::Algorithm::kExchange}));
  EXPECT_EQ(worker::schedule::ToString(rows[1]),
            worker::schedule::ToString({worker::schedule::ScheduledOp::kAllreduce, 32769, kAnyBytes, 3, 4,
                                        worker::schedule::Algorithm::kRing}));
}

TEST(TuneTest, WritesATableThatIsReadBack) {
  TuneOptions options;
  options.ranks = {2, 3};
  options.bytes_max = 4096;
  options.rounds = 2;
  const auto text = Tune(options);
  ASSERT_TRUE(text.ok()) << text.status();
  const auto table = worker::schedule::ScheduleTable::Parse(*text, "tuned");
  ASSERT_TRUE(table.ok()) << table.status() << *text;
  EXPECT_NE(table->Fingerprint(), worker::schedule::ScheduleTable().Fingerprint());
  // Every size of each operation, for members up to those that were measured, is served by a row of its own.
  for (const char* wanted : {"allreduce", "reducescatter", "allgather"}) {
    size_t from_zero = 0;
    for (size_t at = 0; (at = text->find(std::string("\n") + wanted, at)) != std::string::npos; ++at) ++from_zero;
    EXPECT_GE(from_zero, 2) << wanted << "\n" << *text;
  }
  EXPECT_NE(text->find("# allreduce, 3 members, us of the slowest:"), std::string::npos);
}

TEST(TuneTest, MeasuresOverRdmaWhereThereIsSome) {
  TuneOptions options;
  options.ranks = {2};
  options.bytes_max = 1024;
  options.rounds = 1;
  options.transport = "verbs";
  setenv("FARANDOLE_IBVERBS_LIB", "transport/verbs/fake_ibverbs.so", 1);
  const auto text = Tune(options);
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_NE(text->find("over RDMA within this machine"), std::string::npos) << *text;
  EXPECT_TRUE(worker::schedule::ScheduleTable::Parse(*text, "tuned").ok()) << *text;
  setenv("FARANDOLE_VERBS_DEVICES", "missing", 1);
  const absl::Status no_device = Tune(options).status();
  EXPECT_NE(no_device.message().find("missing"), std::string::npos) << no_device;
  setenv("FARANDOLE_IBVERBS_LIB", "/nowhere/libibverbs.so", 1);
  const absl::Status no_library = Tune(options).status();
  EXPECT_TRUE(absl::IsUnavailable(no_library)) << no_library;
  EXPECT_NE(no_library.message().find("/nowhere/libibverbs.so"), std::string::npos) << no_library;
  setenv("FARANDOLE_VERBS_MTU", "1500", 1);
  EXPECT_TRUE(absl::IsInvalidArgument(Tune(options).status()));
  for (const char* name : {"FARANDOLE_IBVERBS_LIB", "FARANDOLE_VERBS_DEVICES", "FARANDOLE_VERBS_MTU"}) unsetenv(name);
}

TEST(TuneTest, RefusesNumbersOfMembersThatCannotBeMeasured) {
  TuneOptions options;
  options.ranks = {65};
  EXPECT_TRUE(absl::IsInvalidArgument(Tune(options).status()));
}

}  // namespace
}  // namespace farandole::perf::data
