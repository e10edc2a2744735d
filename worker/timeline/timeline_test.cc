#include "worker/timeline/timeline.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/unique_fd.h"
#include "gtest/gtest.h"

namespace farandole::worker::timeline {
namespace {

class TimelineTest : public testing::Test {
 protected:
  TimelineTest() : path_(testing::TempDir() + "/timeline.json") {}
  std::string Contents() const {
    std::ifstream file(path_);
    std::ostringstream text;
    text << file.rdbuf();
    // The one line that differs from run to run.
    const std::string all = text.str();
    const size_t epoch = all.find(",\"start_time_since_epoch_in_micros\":");
    return all.substr(0, epoch) + all.substr(all.find('}', epoch));
  }
  const std::string path_;
};

const char kHead[] =
    "[\n"
    R"({"name":"process_name","ph":"M","pid":0,"args":{"name":""}},)"
    "\n"
    R"({"name":"process_sort_index","ph":"M","pid":0,"args":{"sort_index":0}})";

BatchTrace SomeBatch() {
  BatchTrace batch;
  batch.instance = {1, 4, 7, 0};
  batch.operation = "ALLREDUCE";
  batch.tensors = {{"a\"b", R"("dtype":"float32","shape":"[3]")", 1010000}};
  batch.dispatched_ns = 1050000;
  batch.begin_ns = 1060000;
  batch.end_ns = 1100000;
  batch.activities = {{"SHM_ALLREDUCE", 1070000, 1090000}};
  return batch;
}

TEST_F(TimelineTest, TheFileIsValidAfterEachWrite) {
  auto file = TimelineFile::Open(path_, 5);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(Contents(), std::string(kHead) + "\n]\n");
  (*file)->Mark("CYCLE_START", 3);
  ASSERT_TRUE((*file)->Flush().ok());
  const std::string mark = R"({"ph":"i","name":"CYCLE_START","ts":3,"s":"g","pid":0})";
  EXPECT_EQ(Contents(), std::string(kHead) + ",\n" + mark + "\n]\n");
  ASSERT_TRUE((*file)->Flush().ok());
  EXPECT_EQ(Contents(), std::string(kHead) + ",\n" + mark + "\n]\n");
}

TEST_F(TimelineTest, WhatIsNoRegularFileIsRefusedAtOnce) {
  const std::string fifo = absl::StrCat(testing::TempDir(), "/fifo");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  // Nobody reads, and then somebody does.
  for (const bool read : {false, true}) {
    UniqueFd reader(read ? open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1);
    const absl::Status refused = TimelineFile::Open(fifo, 5).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_NE(refused.message().find(absl::StrCat(fifo, ": it is no regular file")), absl::string_view::npos)
        << refused;
  }
  EXPECT_EQ(unlink(fifo.c_str()), 0);
  EXPECT_NE(TimelineFile::Open("/dev/null", 5).status().message().find("no regular file"), absl::string_view::npos);
  EXPECT_NE(TimelineFile::Open(testing::TempDir(), 5).status().message().find("directory"), absl::string_view::npos);
}

TEST_F(TimelineTest, ABatchShowsWhoWasReadyWhen) {
  auto file = TimelineFile::Open(path_, 5);
  ASSERT_TRUE(file.ok());
  // Rank 1 was ready 80 us before the end, rank 2 has not reported.
  WriteBatch(SomeBatch(), Rank(0), {{}, {80}, {}}, 1000000, file->get());
  ASSERT_TRUE((*file)->Flush().ok());
  EXPECT_EQ(Contents(), std::string(kHead) + R"(,
{"name":"process_name","ph":"M","pid":1,"args":{"name":"a\"b"}},
{"name":"process_sort_index","ph":"M","pid":1,"args":{"sort_index":1}},
{"ph":"B","name":"NEGOTIATE_ALLREDUCE","ts":10,"pid":1},
{"ph":"X","name":"0","ts":10,"dur":0,"pid":1},
{"ph":"X","name":"1","ts":20,"dur":0,"pid":1},
{"ph":"E","ts":50,"pid":1},
{"ph":"B","name":"ALLREDUCE","ts":50,"pid":1},
{"ph":"B","name":"QUEUE","ts":50,"pid":1},
{"ph":"E","ts":60,"pid":1},
{"ph":"B","name":"SHM_ALLREDUCE","ts":70,"pid":1},
{"ph":"E","ts":90,"pid":1},
{"ph":"E","ts":100,"pid":1,"args":{"dtype":"float32","shape":"[3]"}}
]
)");
}

TEST_F(TimelineTest, InAReplayTheLastRankEndsTheNegotiation) {
  auto file = TimelineFile::Open(path_, 5);
  ASSERT_TRUE(file.ok());
  BatchTrace batch = SomeBatch();
  batch.replayed = true;
  batch.dispatched_ns = 1010000;
  // Rank 1 came 15 us before the end, while this one was inside the collective.
  WriteBatch(batch, Rank(0), {{}, {15}}, 1000000, file->get());
  ASSERT_TRUE((*file)->Flush().ok());
  const std::string text = Contents();
  EXPECT_NE(text.find(R"({"ph":"X","name":"0","ts":10,"dur":0,"pid":1},
{"ph":"X","name":"1","ts":85,"dur":0,"pid":1},
{"ph":"E","ts":85,"pid":1},
{"ph":"B","name":"ALLREDUCE","ts":85,"pid":1},
{"ph":"B","name":"SHM_ALLREDUCE","ts":85,"pid":1},
{"ph":"E","ts":90,"pid":1},
{"ph":"E","ts":100,"pid":1)"),
            std::string::npos)
      << text;
}

TEST_F(TimelineTest, OthersReportTimesBeforeTheEnd) {
  Timeline timeline(Rank(1), 2);
  timeline.Executed(SomeBatch());
  EXPECT_TRUE(timeline.TakeRecords().empty());  // off
  timeline.StartReporting();
  timeline.Executed(SomeBatch());
  const std::vector<TraceRecord> records = timeline.TakeRecords();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].anchor, 4u);
  EXPECT_EQ(records[0].seq, 7u);
  EXPECT_EQ(records[0].ready_us, std::vector<uint64_t>{90});
  EXPECT_TRUE(timeline.TakeRecords().empty());
}

TEST_F(TimelineTest, StopWritesWhatIsPending) {
  Timeline timeline(Rank(0), 2);
  ASSERT_TRUE(timeline.StartWriting(path_, true).ok());
  EXPECT_EQ(timeline.StartWriting(path_, true).code(), absl::StatusCode::kFailedPrecondition);
  Trace early;
  early.rank = Rank(1);
  early.records = {{4, 7, {80}}};
  timeline.Received(early);
  timeline.Executed(SomeBatch());
  timeline.Stop();
  const std::string text = Contents();
  EXPECT_NE(text.find(R"("ph":"X","name":"0")"), std::string::npos) << text;
  EXPECT_NE(text.find(R"("ph":"X","name":"1")"), std::string::npos) << text;
  EXPECT_NE(text.find("CYCLE_START"), std::string::npos) << text;
  timeline.Executed(SomeBatch());  // off again
  ASSERT_TRUE(timeline.StartWriting(path_, false).ok());
  timeline.Stop();
  EXPECT_EQ(Contents(), std::string(kHead) + "\n]\n");
}

TEST_F(TimelineTest, AFileThatCannotBeOpenedIsNamed) {
  Timeline timeline(Rank(0), 1);
  const absl::Status status = timeline.StartWriting("/nowhere/t.json", false);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "cannot write the timeline to /nowhere/t.json: No such file or directory");
  EXPECT_FALSE(timeline.on());
}

}  // namespace
}  // namespace farandole::worker::timeline
