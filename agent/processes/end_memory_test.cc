#include "agent/processes/end_memory.h"

#include <gtest/gtest.h>

namespace farandole::agent::processes {
namespace {

TEST(EndMemory, ComesBackAsItWas) {
  WorkerEnd end;
  end.rank = Rank(12);
  end.process = ProcessEnd{4000000, 137, "was killed by signal 9 (SIGKILL)"};
  end.without_leaving = true;
  end.removed_because = "rank 1\tdied";
  const absl::StatusOr<WorkerEnd> again = ParseEnd(EndKey(end.rank), EndLine(end));
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->rank, end.rank);
  EXPECT_EQ(again->process.pid, 4000000);
  EXPECT_EQ(again->process.code, 137);
  EXPECT_EQ(again->process.cause, end.process.cause);
  EXPECT_TRUE(again->without_leaving);
  EXPECT_EQ(again->removed_because, "rank 1 died");
  end.without_leaving = false;
  end.process.code = -1;
  EXPECT_FALSE(ParseEnd(EndKey(end.rank), EndLine(end))->without_leaving);
  EXPECT_EQ(ParseEnd(EndKey(end.rank), EndLine(end))->process.code, -1);
}

TEST(EndMemory, RefusesWhatItHasNotWritten) {
  const std::string line = EndLine(WorkerEnd());
  EXPECT_TRUE(ParseEnd("end 1", line).ok());
  EXPECT_FALSE(ParseEnd("end x", line).ok());
  EXPECT_FALSE(ParseEnd("member 1.", line).ok());
  EXPECT_FALSE(ParseEnd("end 1", line + "\t").ok());
  EXPECT_FALSE(ParseEnd("end 1", "").ok());
}

}  // namespace
}  // namespace farandole::agent::processes
