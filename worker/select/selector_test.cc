#include "worker/select/selector.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"

namespace farandole::worker::select {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

class Named : public collective::Communicator {
 public:
  explicit Named(std::string name) : name_(std::move(name)) {}
  std::string name() const override { return name_; }
  int position() const override { return 0; }
  int size() const override { return 1; }
  void* Buffer(int64_t bytes) override { return nullptr; }
  absl::Status Allreduce(const collective::Instance&, const arithmetic::Reduction&, void*, int64_t) override {
    return absl::OkStatus();
  }
  absl::Status Allgather(const collective::Instance&, const void*, void*, const std::vector<int64_t>&) override {
    return absl::OkStatus();
  }
  absl::Status Alltoall(const collective::Instance&, const void*, void*, const std::vector<int64_t>&,
                        const std::vector<int64_t>&) override {
    return absl::OkStatus();
  }
  absl::Status Broadcast(const collective::Instance&, int, void*, int64_t) override { return absl::OkStatus(); }
  absl::Status Barrier(const collective::Instance&) override { return absl::OkStatus(); }
  bool CanWithdraw() const override { return false; }
  void Withdraw(const collective::Instance&) override {}
  void Abort(const std::string&) override {}
  Rank SuspectRank() const override { return Rank(); }

 private:
  const std::string name_;
};

// Records who was asked; answers with `answers`, OK by default.
class SelectorTest : public testing::Test {
 protected:
  absl::StatusOr<Selection> Select(const collective::Group& group, absl::string_view override_name) {
    asked_.clear();
    CommunicatorBuilders builders;
    builders.lone = Builder("lone", absl::OkStatus());
    builders.shm = Builder("shm", shm_answer_);
    builders.hier = Builder("hier", hier_answer_);
    builders.tcp = Builder("tcp", tcp_answer_);
    return SelectCommunicator(group, override_name, builders);
  }

  CommunicatorBuilder Builder(const std::string& name, const absl::Status& answer) {
    return [this, name, answer](const collective::Group&) -> absl::StatusOr<std::unique_ptr<collective::Communicator>> {
      asked_.push_back(name);
      if (!answer.ok()) return answer;
      return std::make_unique<Named>(name);
    };
  }

  absl::Status shm_answer_, hier_answer_, tcp_answer_;
  std::vector<std::string> asked_;
};

TEST_F(SelectorTest, OneMemberIsAloneWhateverTheOverride) {
  for (const char* name : {"auto", "shm", "hier", "tcp"}) {
    auto selection = Select(collective::TestGroup(1, 0), name);
    ASSERT_TRUE(selection.ok()) << selection.status();
    EXPECT_EQ(selection->communicator->name(), "lone");
  }
}

TEST_F(SelectorTest, OneAgentMeansSharedMemory) {
  auto selection = Select(collective::TestGroup(4, 1), "auto");
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->communicator->name(), "shm");
  EXPECT_EQ(selection->reason, "shm; not lone: there are 4 members");
  EXPECT_THAT(asked_, ElementsAre("shm"));
}

TEST_F(SelectorTest, TwoAgentsOfSeveralMembersMeanBoth) {
  auto selection = Select(collective::TestGroupOnHosts({0, 0, 1, 1}, 0), "auto");
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->communicator->name(), "hier");
  EXPECT_THAT(selection->reason,
              HasSubstr("not shm: rank 0 (pid 1000 on host host0) and rank 2 (pid 1002 on host host1) "
                        "do not share an agent"));
  EXPECT_THAT(asked_, ElementsAre("hier"));
}

TEST_F(SelectorTest, WithoutMemoryOnOneHostAllGoOnToTcp) {
  hier_answer_ = absl::UnavailableError("shared memory of rank 3: none");
  auto selection = Select(collective::TestGroupOnHosts({0, 1, 0, 1}, 0), "auto");
  ASSERT_TRUE(selection.ok());
  EXPECT_THAT(selection->reason, HasSubstr("not hier: shared memory of rank 3: none"));
  EXPECT_THAT(asked_, ElementsAre("hier", "tcp"));
}

TEST_F(SelectorTest, OneAgentEachMeansTcp) {
  auto selection = Select(collective::TestGroupOnHosts({0, 1}, 0), "auto");
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->communicator->name(), "tcp");
  EXPECT_THAT(selection->reason,
              HasSubstr("not shm: rank 0 (pid 1000 on host host0) and rank 1 (pid 1001 on host host1) "
                        "do not share an agent; not hier: no two members share an agent"));
  EXPECT_THAT(asked_, ElementsAre("tcp"));
}

TEST_F(SelectorTest, WithoutMemoryForASegmentAllGoOnToTcp) {
  shm_answer_ = absl::UnavailableError("shared memory of rank 1: none");
  auto selection = Select(collective::TestGroup(2, 0), "auto");
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->reason,
            "tcp; not lone: there are 2 members; not shm: shared memory of rank 1: none; "
            "not hier: all members share an agent");
  EXPECT_THAT(asked_, ElementsAre("shm", "tcp"));
}

TEST_F(SelectorTest, OtherFailuresEndTheSelection) {
  shm_answer_ = absl::DeadlineExceededError("rank 1 did not come");
  EXPECT_EQ(Select(collective::TestGroup(2, 0), "auto").status(), shm_answer_);
  EXPECT_THAT(asked_, ElementsAre("shm"));
}

TEST_F(SelectorTest, OverrideDecides) {
  auto selection = Select(collective::TestGroup(2, 0), "tcp");
  ASSERT_TRUE(selection.ok());
  EXPECT_EQ(selection->communicator->name(), "tcp");
  EXPECT_THAT(selection->reason, HasSubstr("not shm: FARANDOLE_COMMUNICATOR=tcp"));
  EXPECT_THAT(asked_, ElementsAre("tcp"));
}

TEST_F(SelectorTest, OverrideOfHierBindsWhatItCanServe) {
  EXPECT_EQ(Select(collective::TestGroupOnHosts({0, 1, 0}, 0), "hier")->communicator->name(), "hier");
  EXPECT_EQ(Select(collective::TestGroup(2, 0), "hier")->communicator->name(), "shm");
  EXPECT_EQ(Select(collective::TestGroupOnHosts({0, 1}, 0), "hier")->communicator->name(), "tcp");
  hier_answer_ = absl::UnavailableError("no memory");
  const absl::Status none = Select(collective::TestGroupOnHosts({0, 1, 0}, 0), "hier").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(none.message()), HasSubstr("not tcp: FARANDOLE_COMMUNICATOR=hier"));
}

TEST_F(SelectorTest, OverrideThatCannotBeIsAnErrorWithTheReason) {
  const absl::Status apart = Select(collective::TestGroupOnHosts({0, 0, 1}, 0), "shm").status();
  EXPECT_EQ(apart.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(apart.message()), HasSubstr("do not share an agent"));
  shm_answer_ = absl::UnavailableError("no memory");
  const absl::Status none = Select(collective::TestGroup(2, 0), "shm").status();
  EXPECT_EQ(none.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(none.message()), HasSubstr("not shm: no memory"));
}

TEST_F(SelectorTest, UnknownOverride) {
  EXPECT_EQ(Select(collective::TestGroup(2, 0), "nccl").status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(SelectorTableTest, Prints) {
  EXPECT_EQ(SelectorTableText(BuiltInSelectorTable()),
            "operation    memory     from bytes     to bytes  members on   communicator\n"
            "any          host                0          any  one member   lone\n"
            "any          host                0          any  one agent    shm\n"
            "any          host                0          any  some agents  hier\n"
            "any          host                0          any  any          tcp\n");
}

}  // namespace
}  // namespace farandole::worker::select
