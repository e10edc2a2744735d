#include "controller/audit/audit_log.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/read_file.h"

namespace farandole::controller::audit {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::SizeIs;

class AuditLogTest : public ::testing::Test {
 protected:
  AuditLogTest() : path_(absl::StrCat(::testing::TempDir(), "/audit")) { unlink(path_.c_str()); }
  ~AuditLogTest() override { unlink(path_.c_str()); }

  std::unique_ptr<AuditLog> Open(const std::string& path) {
    auto opened = AuditLog::Open(path, [this] { return now_ms_; });
    EXPECT_TRUE(opened.ok()) << opened.status();
    return *std::move(opened);
  }
  std::vector<std::string> Lines() const { return absl::StrSplit(ReadFile(path_), '\n', absl::SkipEmpty()); }
  static AuditEvent Of(const std::string& event, const std::string& job) {
    AuditEvent made;
    made.event = event;
    made.job = job;
    return made;
  }

  const std::string path_;
  int64_t now_ms_ = 1735689600007;
};

TEST_F(AuditLogTest, ALineIsAJsonObject) {
  const auto log = Open(path_);
  AuditEvent event = Of("agent_connected", "team.digits/part");
  event.peer = "10.0.0.7";
  event.agent = "a1";
  event.host = "a \"host\"\n";
  log->Write(event);
  event = Of("connection_refused", "team.digits");
  event.proven = false;
  event.why = "wrong";
  log->Write(event);
  EXPECT_THAT(
      Lines(),
      ElementsAre(R"({"time":"2025-01-01T00:00:00.007Z","event":"agent_connected","namespace":"team",)"
                  R"("job":"team.digits/part","peer":"10.0.0.7","agent":"a1","host":"a \"host\"\u000a"})",
                  R"({"time":"2025-01-01T00:00:00.007Z","event":"connection_refused","claimed_job":"team.digits",)"
                  R"("why":"wrong"})"));
  struct stat about;
  ASSERT_EQ(stat(path_.c_str(), &about), 0);
  EXPECT_EQ(about.st_mode & 0777, 0600);
}

TEST_F(AuditLogTest, AFileGrows) {
  Open(path_)->Write(Of("controller_started", ""));
  Open(path_)->Write(Of("controller_started", ""));
  EXPECT_THAT(Lines(), SizeIs(2));
}

TEST_F(AuditLogTest, AFloodOfOneNamespaceIsLeftOutAndCounted) {
  const auto log = Open(path_);
  const int burst = static_cast<int>(AuditLog::kBurst);
  for (int i = 0; i < burst + 30; ++i) log->Write(Of("call_began", absl::StrCat("team.", i)));
  EXPECT_THAT(Lines(), SizeIs(burst));
  log->Write(Of("call_began", "other.j"));
  EXPECT_THAT(Lines().back(), HasSubstr("other.j")) << "others have their own share";
  EXPECT_THAT(Lines().back(), Not(HasSubstr("left_out")));
  now_ms_ += 1000;
  log->Write(Of("call_began", "team.last"));
  EXPECT_THAT(Lines().back(), HasSubstr(R"("left_out":30)"));
  log->Write(Of("call_began", "team.last"));
  EXPECT_THAT(Lines().back(), Not(HasSubstr("left_out")));
  EXPECT_THAT(Lines(), SizeIs(burst + 3));
}

TEST_F(AuditLogTest, WhoHasShownNoTokenHasOneShareWhateverHeCallsHimself) {
  const auto log = Open(path_);
  const int burst = static_cast<int>(AuditLog::kBurst);
  for (int i = 0; i < burst + 1; ++i) {
    AuditEvent event = Of("connection_refused", absl::StrCat("n", i, ".j"));
    event.proven = false;
    log->Write(event);
  }
  EXPECT_THAT(Lines(), SizeIs(burst));
}

TEST_F(AuditLogTest, SharesAreBounded) {
  const auto log = Open(path_);
  AuditEvent stranger = Of("connection_refused", "");
  stranger.proven = false;
  const int burst = static_cast<int>(AuditLog::kBurst);
  for (int i = 0; i < burst; ++i) log->Write(stranger);
  // The strangers' share is the first one; it is what is left for those beyond the bound.
  for (size_t i = 1; i < AuditLog::kSharesMax + 10; ++i) log->Write(Of("job_began", absl::StrCat("n", i, ".j")));
  EXPECT_THAT(Lines(), SizeIs(burst + AuditLog::kSharesMax - 1));
  // Those that are whole again make room.
  now_ms_ += 1000;
  log->Write(Of("job_began", "late.j"));
  EXPECT_THAT(Lines().back(), HasSubstr("late.j"));
}

TEST_F(AuditLogTest, NobodyKeepsOutWhatTheControllerItselfDoes) {
  const auto log = Open(path_);
  AuditEvent stranger = Of("connection_refused", "");
  stranger.proven = false;
  for (int i = 0; i < static_cast<int>(AuditLog::kBurst) + 5; ++i) {
    log->Write(stranger);
    log->Write(Of("call_began", "j"));
  }
  log->Write(Of("keys_exchanged", ""));
  EXPECT_THAT(Lines().back(), HasSubstr("keys_exchanged"));
}

TEST_F(AuditLogTest, AReaderThatStandsStillHoldsNobodyUp) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const UniqueFd reader(open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  const auto log = Open(path_);
  const int pipe_bytes = fcntl(reader.get(), F_GETPIPE_SZ);
  AuditEvent event = Of("agent_refused", "team.j");
  event.why = std::string(200, 'x');
  const int more = pipe_bytes / 200 + 50;
  for (int i = 0; i < more; ++i) log->Write(event);
  std::string heard(pipe_bytes, ' ');
  const ssize_t n = read(reader.get(), heard.data(), heard.size());
  ASSERT_GT(n, 0);
  heard.resize(n);
  EXPECT_EQ(heard.back(), '\n');
  const std::vector<std::string> lines = absl::StrSplit(heard, '\n', absl::SkipEmpty());
  EXPECT_LT(lines.size(), more);
  log->Write(event);
  char next[AuditLog::kLineBytesMax];
  const ssize_t m = read(reader.get(), next, sizeof next);
  ASSERT_GT(m, 0);
  EXPECT_THAT(std::string(next, m), HasSubstr(absl::StrCat(R"("lost":)", more - lines.size(), ",")));
}

// Where writing would wait: standard output is as it was handed over.
TEST_F(AuditLogTest, AFullStandardOutputHoldsNobodyUp) {
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]), own(fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
  ASSERT_GE(dup2(writer.get(), STDOUT_FILENO), 0);
  const auto log = Open("-");
  ASSERT_GE(dup2(own.get(), STDOUT_FILENO), 0);
  AuditEvent event = Of("agent_refused", "team.j");
  event.why = std::string(200, 'x');
  for (int i = 0; i < fcntl(reader.get(), F_GETPIPE_SZ) / 200 + 50; ++i) log->Write(event);
  char heard[AuditLog::kLineBytesMax];
  EXPECT_EQ(read(reader.get(), heard, sizeof heard), static_cast<ssize_t>(sizeof heard));
}

TEST_F(AuditLogTest, ALineThatWouldBeTooLongHasNoDetails) {
  const auto log = Open(path_);
  AuditEvent event = Of("agent_refused", "team.j");
  event.agent = event.host = event.why = std::string(400, '\1');
  log->Write(event);
  ASSERT_THAT(Lines(), SizeIs(1));
  EXPECT_LE(Lines()[0].size(), AuditLog::kLineBytesMax);
  EXPECT_THAT(Lines()[0], HasSubstr(R"("job":"team.j"})"));
}

TEST_F(AuditLogTest, WhatCannotBeOpenedIsSaid) {
  const auto opened = AuditLog::Open("/no/such/file", [] { return int64_t{0}; });
  EXPECT_EQ(opened.status().message(), "--audit-log: cannot open /no/such/file: No such file or directory");
}

}  // namespace
}  // namespace farandole::controller::audit
