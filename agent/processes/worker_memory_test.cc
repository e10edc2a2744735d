#include "agent/processes/worker_memory.h"

#include <gtest/gtest.h>

namespace farandole::agent::processes {
namespace {

WorkerMemory Again(const WorkerMemory& memory) {
  const absl::StatusOr<WorkerMemory> parsed = ParseMemory(MemoryKey(memory.incarnation), MemoryLine(memory));
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.value_or(WorkerMemory());
}

TEST(WorkerMemory, ComesBackAsItWas) {
  const WorkerMemory plain = Again({Incarnation(~uint64_t{0}), 4000000, Rank(), false, true, false, true, "", ""});
  EXPECT_EQ(plain.incarnation, Incarnation(~uint64_t{0}));
  EXPECT_EQ(plain.pid, 4000000);
  EXPECT_FALSE(plain.rank.known());
  EXPECT_TRUE(!plain.leaving && plain.left && !plain.removed && plain.ended && !plain.lives && !plain.elastic);
  const WorkerMemory told =
      Again({Incarnation(1), 2, Rank(3), true, false, true, false, "rank 0\tdied", "exited", true, true});
  EXPECT_EQ(told.rank, Rank(3));
  EXPECT_TRUE(told.leaving && !told.left && told.removed && !told.ended && told.lives && told.elastic);
  EXPECT_EQ(told.removed_because, "rank 0 died");
  EXPECT_EQ(told.cause, "exited");
}

TEST(WorkerMemory, RefusesWhatItHasNotWritten) {
  const std::string line = MemoryLine(WorkerMemory());
  EXPECT_FALSE(ParseMemory("worker 1.", line).ok());
  EXPECT_FALSE(ParseMemory("member x.", line).ok());
  EXPECT_FALSE(ParseMemory("member 1", line).ok());
  EXPECT_FALSE(ParseMemory("member 1.", "").ok());
  EXPECT_FALSE(ParseMemory("member 1.", line + "\t").ok());
  EXPECT_TRUE(ParseMemory("member 1.", line).ok());
}

}  // namespace
}  // namespace farandole::agent::processes
