#include "controller/files/limits_file.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "controller/hub/noted_log_testing.h"

namespace farandole::controller::files {
namespace {

using Lines = hub::NotedLog::Lines;

class LimitsFileTest : public ::testing::Test {
 protected:
  ~LimitsFileTest() override { unlink(path_.c_str()); }
  void Write(const std::string& text) { std::ofstream(path_) << text; }
  void Look(int times) {
    for (int i = 0; i < times; ++i) file_.LookFromLoop();
  }

  inline static int tests_ = 0;
  const std::string path_ = absl::StrCat(::testing::TempDir(), "/limits-", getpid(), "-", ++tests_);
  LimitRing ring_{LimitTable()};
  hub::NotedLog log_;
  EventLoop loop_{"test"};
  std::vector<std::string> told_;
  LimitsFile file_{path_, &ring_, &loop_, &log_,
                   [this](const audit::AuditEvent& event) { told_.push_back(event.event + ": " + event.why); }};
};

TEST_F(LimitsFileTest, ChangedLimitsAreTakenAndTold) {
  Write("team jobs=4\n* jobs=1\n");
  Look(3);
  EXPECT_EQ(ring_.Get()->Of("team").jobs_max, 4);
  const std::string sentence = absl::StrCat("limits read again from ", path_, ": they have 2 lines");
  EXPECT_EQ(log_.Take(), Lines{sentence});
  EXPECT_EQ(told_, Lines{"limits_exchanged: " + sentence});
}

TEST_F(LimitsFileTest, AFileWithAMistakeChangesNothing) {
  Write("team jobs=4\n");
  Look(3);
  log_.Take();
  Write("team jobs=4 cake=2\n");
  Look(3);
  EXPECT_EQ(ring_.Get()->Of("team").jobs_max, 4);
  EXPECT_EQ(log_.Take(), Lines{absl::StrCat("limits stay as they were: line 1 of ", path_,
                                            ": 'cake=2' is none of jobs=N and agents=N, with N from 1 on")});
  unlink(path_.c_str());
  Look(3);
  EXPECT_EQ(log_.Take(),
            Lines{absl::StrCat("limits stay as they were: ", path_, " cannot be read, or is no regular file")});
}

}  // namespace
}  // namespace farandole::controller::files
