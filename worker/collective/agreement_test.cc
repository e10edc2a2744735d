#include "worker/collective/agreement.h"

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"

namespace farandole::worker::collective {
namespace {

using testing::Each;
using testing::HasSubstr;

constexpr int kMembers = 4;

// Each member says what `says` has for it; who has nothing does not come. What each is answered.
std::vector<absl::Status> Answers(const std::vector<int>& speakers, const std::vector<Say>& says, int within_ms) {
  LocalBootstrap bootstrap;
  std::vector<absl::Status> answers(says.size());
  std::vector<std::thread> threads;
  for (size_t position = 0; position < says.size(); ++position) {
    threads.emplace_back([&, position] {
      const Group group = TestGroup(kMembers, static_cast<int>(position));
      const TimePoint deadline = Clock::Monotonic().Now().PlusMs(within_ms);
      answers[position] = Agree(group, "test", speakers, says[position], &bootstrap, deadline);
    });
  }
  for (std::thread& thread : threads) thread.join();
  return answers;
}

const std::vector<int> kAll = {0, 1, 2, 3};

TEST(AgreementTest, AllCan) {
  EXPECT_THAT(Answers(kAll, std::vector<Say>(kMembers, {absl::OkStatus(), "2 MiB"}), 20000), Each(absl::OkStatus()));
}

TEST(AgreementTest, AllHearOfTheFirstThatCannot) {
  std::vector<Say> says(kMembers);
  says[2].status = absl::UnavailableError("rank 2 has no memory");
  says[3].status = absl::InternalError("rank 3 is confused");
  EXPECT_THAT(Answers(kAll, says, 20000), Each(absl::UnavailableError("rank 2 has no memory")));
  says[1].status = absl::InternalError("rank 1 is confused");
  EXPECT_THAT(Answers(kAll, says, 20000), Each(absl::FailedPreconditionError("rank 1 is confused")));
}

TEST(AgreementTest, OnlySpeakersCount) {
  std::vector<Say> says(kMembers);
  says[1].status = absl::UnavailableError("rank 1 has no memory");
  EXPECT_THAT(Answers({0, 2}, says, 20000), Each(absl::OkStatus()));
  EXPECT_THAT(Answers({1, 2}, says, 20000), Each(says[1].status));
}

TEST(AgreementTest, TermsHaveToBeTheSame) {
  std::vector<Say> says(kMembers, {absl::OkStatus(), "4 ranks"});
  says[3].terms = "5 ranks";
  const std::vector<absl::Status> answers = Answers(kAll, says, 20000);
  EXPECT_THAT(answers, Each(answers[0]));
  EXPECT_TRUE(absl::IsUnavailable(answers[0]));
  EXPECT_THAT(std::string(answers[0].message()), HasSubstr("rank 3 (pid 1003 on host here) wants 5 ranks, rank 0"));
}

// Its way to the controller breaks for a moment.
class Interrupted final : public Bootstrap {
 public:
  explicit Interrupted(Bootstrap* under) : under_(under) {}
  absl::Status Put(const std::string& key, const std::string& value) override { return under_->Put(key, value); }
  absl::StatusOr<std::string> Get(const std::string& key, uint32_t timeout_ms) override {
    return absl::UnavailableError("no channel to the controller");
  }
  absl::StatusOr<UniqueFd> Segment(const std::string& key, uint64_t bytes) override {
    return under_->Segment(key, bytes);
  }

 private:
  Bootstrap* const under_;
};

TEST(AgreementTest, AFailureThatOneMemberHearsIsNoAnswerOfAll) {
  LocalBootstrap bootstrap;
  Interrupted interrupted(&bootstrap);
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(20000);
  for (int position : {1, 0}) {
    const absl::Status status = Agree(TestGroup(kMembers, position), "test", {}, &interrupted, deadline);
    EXPECT_EQ(status, absl::FailedPreconditionError("no channel to the controller")) << position;
  }
}

TEST(AgreementTest, WhoIsNotHeardOfIsNamedToAll) {
  const std::vector<absl::Status> answers = Answers(kAll, std::vector<Say>(kMembers - 1), 200);
  EXPECT_THAT(answers, Each(answers[0]));
  EXPECT_TRUE(absl::IsDeadlineExceeded(answers[0]));
  EXPECT_THAT(std::string(answers[0].message()), HasSubstr("nothing was heard of rank 3"));
}

}  // namespace
}  // namespace farandole::worker::collective
