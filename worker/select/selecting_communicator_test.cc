#include "worker/select/selecting_communicator.h"

#include <limits>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/select/media.h"

namespace farandole::worker::select {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr int64_t kNoLimit = std::numeric_limits<int64_t>::max();

// A communicator of a name, that notes what it is asked.
class Named final : public collective::Communicator {
 public:
  Named(std::string name, std::vector<std::string>* log) : name_(std::move(name)), log_(log) {}
  std::string name() const override { return name_; }
  int position() const override { return 0; }
  int size() const override { return 1; }
  int64_t FusedBytesMax(DeviceKind memory, device::Device* device) override {
    return static_cast<int64_t>(name_.size());
  }
  void Start(const collective::Instance& instance, const collective::Collective& collective, const Enqueued& enqueued,
             Done done) override {
    log_->push_back(name_);
    done(status_);
  }
  void Withdraw(const collective::Instance& instance) override { log_->push_back(name_ + " withdraws"); }
  void Abort(const std::string& reason) override {
    log_->push_back(name_ + " aborts");
    status_ = absl::AbortedError(reason);
  }
  Rank SuspectRank() const override { return Rank(); }

 private:
  const std::string name_;
  std::vector<std::string>* const log_;
  absl::Status status_;
};

// Media that note who was asked to make something; one of `refusals` answers with that.
class SelectingCommunicatorTest : public testing::Test {
 protected:
  std::unique_ptr<SelectingCommunicator> Make(const collective::Group& group, const std::string& override_name = "auto",
                                              absl::Span<const SelectorRow> table = BuiltInSelectorTable(),
                                              const std::vector<std::string>& others_of_devices = {}) {
    media_.clear();
    for (const char* name : {"lone", "shm", "hier", "verbs", "tcp", "device"}) media_.push_back(MediumOf(name));
    media_.back().memory = {DeviceKind::kAccelerator};
    for (const std::string& name : others_of_devices) {
      media_.push_back(MediumOf(name));
      media_.back().memory = {DeviceKind::kAccelerator};
    }
    return std::make_unique<SelectingCommunicator>(group, &bootstrap_,
                                                   SelectingCommunicator::Choices{table, media_, override_name});
  }
  collective::Medium MediumOf(const std::string& name) {
    collective::Medium medium;
    medium.name = name;
    medium.make = [this, name](const collective::Group&, collective::Bootstrap*,
                               device::Device*) -> absl::StatusOr<std::unique_ptr<collective::Communicator>> {
      asked_.push_back(name);
      const auto refusal = refusals_.find(name);
      if (refusal != refusals_.end()) return refusal->second;
      return std::make_unique<Named>(name, &log_);
    };
    return medium;
  }
  // What large allreduces on host memory use.
  std::string NameFor(const collective::Group& group, const std::string& override_name = "auto") {
    const auto communicator = Make(group, override_name);
    const absl::Status prepared = communicator->Prepare();
    return prepared.ok() ? communicator->name() : std::string(prepared.message());
  }

  collective::LocalBootstrap bootstrap_;
  std::map<std::string, absl::Status> refusals_ = {{"verbs", absl::UnavailableError("no device")}};
  std::vector<collective::Medium> media_;
  std::vector<std::string> asked_, log_;
};

TEST_F(SelectingCommunicatorTest, TheShapeOfTheGroupDecides) {
  for (const char* name : {"auto", "shm", "hier", "tcp"}) EXPECT_EQ(NameFor(collective::TestGroup(1, 0), name), "lone");
  EXPECT_EQ(NameFor(collective::TestGroup(4, 1)), "shm");
  EXPECT_EQ(NameFor(collective::TestGroupOnHosts({0, 0, 1, 1}, 0)), "hier");
  asked_.clear();
  EXPECT_EQ(NameFor(collective::TestGroupOnHosts({0, 1}, 0)), "tcp");
  EXPECT_THAT(asked_, ElementsAre("verbs", "tcp"));
  refusals_.clear();
  EXPECT_EQ(NameFor(collective::TestGroupOnHosts({0, 1}, 0)), "verbs");
}

TEST_F(SelectingCommunicatorTest, AfterARefusalAllGoOnToTheNextRow) {
  refusals_["shm"] = refusals_["hier"] = absl::UnavailableError("shared memory of rank 1: none");
  EXPECT_EQ(NameFor(collective::TestGroup(2, 0)), "tcp");
  EXPECT_THAT(asked_, ElementsAre("shm", "verbs", "tcp"));
  asked_.clear();
  EXPECT_EQ(NameFor(collective::TestGroupOnHosts({0, 1, 0, 1}, 0)), "tcp");
  EXPECT_THAT(asked_, ElementsAre("hier", "verbs", "tcp"));
}

TEST_F(SelectingCommunicatorTest, ItSaysWhatCarriesTensorsAndWhatCouldNotBeHad) {
  const auto communicator = Make(collective::TestGroupOnHosts({0, 1}, 0));
  EXPECT_EQ(communicator->CommunicatesBy(), "");
  ASSERT_TRUE(communicator->Prepare().ok());
  EXPECT_EQ(communicator->CommunicatesBy(), "CPU tensors by tcp (not verbs: no device)");
  EXPECT_EQ(communicator->WhyNotQuicker(), "not verbs: no device");
  const auto shared = Make(collective::TestGroup(2, 0));
  ASSERT_TRUE(shared->Prepare().ok());
  EXPECT_EQ(shared->CommunicatesBy(), "CPU tensors by shm") << "what is slower does not count";
}

TEST_F(SelectingCommunicatorTest, OtherFailuresEndTheSelection) {
  refusals_["shm"] = absl::DeadlineExceededError("rank 1 did not come");
  EXPECT_EQ(Make(collective::TestGroup(2, 0))->Prepare(), refusals_["shm"]);
  EXPECT_THAT(asked_, ElementsAre("shm"));
}

TEST_F(SelectingCommunicatorTest, TheOverrideDecides) {
  EXPECT_EQ(NameFor(collective::TestGroup(2, 0), "tcp"), "tcp");
  EXPECT_THAT(asked_, ElementsAre("tcp"));
  EXPECT_EQ(NameFor(collective::TestGroupOnHosts({0, 1, 0}, 0), "hier"), "hier");
  EXPECT_EQ(NameFor(collective::TestGroup(2, 0), "hier"), "shm") << "it binds what it can serve";
  EXPECT_EQ(NameFor(collective::TestGroupOnHosts({0, 1}, 0), "hier"), "tcp");
}

TEST_F(SelectingCommunicatorTest, WhenNothingServesItSaysWhyOfEachRow) {
  EXPECT_THAT(
      NameFor(collective::TestGroupOnHosts({0, 0, 1}, 0), "shm"),
      HasSubstr(
          "no communicator serves these 3 members: not lone: there are 3 members; not shm: rank 0 (pid "
          "1000 on host host0) and rank 2 (pid 1002 on host host1) do not share an agent; not hier: "
          "FARANDOLE_COMMUNICATOR=shm; not verbs: FARANDOLE_COMMUNICATOR=shm; not tcp: FARANDOLE_COMMUNICATOR=shm"));
  refusals_["shm"] = absl::UnavailableError("no memory");
  EXPECT_THAT(NameFor(collective::TestGroup(2, 0), "shm"), HasSubstr("not shm: no memory"));
  EXPECT_EQ(NameFor(collective::TestGroup(2, 0), "nccl"),
            "no communicator is called \"nccl\"; FARANDOLE_COMMUNICATOR is auto, shm, hier, verbs, tcp or device");
}

// Small allreduces by one medium, others by another, and what lies on a device by a third.
constexpr SelectorRow kMixed[] = {
    {OpKind::kAllreduce, DeviceKind::kHost, 0, 1024, WorldShape::kAny, "shm"},
    {OpKind::kUnspecified, DeviceKind::kHost, 0, kNoLimit, WorldShape::kAny, "tcp"},
    {OpKind::kUnspecified, DeviceKind::kAccelerator, 0, kNoLimit, WorldShape::kAny, "device"},
};

collective::Collective AllreduceOf(int64_t count, DeviceKind memory = DeviceKind::kHost) {
  return {collective::Allreduce{DataType::kFloat32, {{nullptr, nullptr, count}}}, memory};
}

TEST_F(SelectingCommunicatorTest, EachCollectiveGoesWhereTheTableSays) {
  const auto communicator = Make(collective::TestGroup(2, 0), "auto", kMixed);
  ASSERT_TRUE(communicator->Prepare().ok());
  EXPECT_EQ(communicator->FusedBytesMax(DeviceKind::kHost, nullptr), 3) << "of tcp";
  EXPECT_THAT(asked_, ElementsAre("tcp")) << "the others are made when they are needed";
  const auto ok = [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; };
  communicator->Start({1, 1}, AllreduceOf(256), nullptr, ok);
  communicator->Start({1, 2}, AllreduceOf(257), nullptr, ok);
  communicator->Start({1, 3}, AllreduceOf(1, DeviceKind::kAccelerator), nullptr, ok);
  communicator->Start({1, 4}, {collective::Barrier()}, nullptr, ok);
  communicator->Start({1, 5}, AllreduceOf(0), nullptr, ok);
  EXPECT_THAT(log_, ElementsAre("shm", "tcp", "device", "tcp", "shm"));
  EXPECT_THAT(asked_, ElementsAre("tcp", "shm", "device"));
}

TEST_F(SelectingCommunicatorTest, NothingIsGivenMemoryThatItsMediumDoesNotKnow) {
  constexpr SelectorRow kWrong[] = {
      {OpKind::kUnspecified, DeviceKind::kAccelerator, 0, kNoLimit, WorldShape::kAny, "tcp"}};
  const auto communicator = Make(collective::TestGroup(2, 0), "auto", kWrong);
  communicator->Start({1, 1}, AllreduceOf(1, DeviceKind::kAccelerator), nullptr, [](const absl::Status& status) {
    EXPECT_THAT(std::string(status.message()), HasSubstr("not tcp: it does not work on GPU memory"));
  });
  Make(collective::TestGroup(2, 0), "auto", kWrong)
      ->Start({1, 1}, AllreduceOf(1), nullptr, [](const absl::Status& status) {
        EXPECT_THAT(std::string(status.message()), HasSubstr("the table has nothing for allreduce on CPU memory"));
      });
  EXPECT_THAT(asked_, IsEmpty());
}

TEST_F(SelectingCommunicatorTest, WithdrawAndAbortReachWhatIsMadeLater) {
  const auto communicator = Make(collective::TestGroup(2, 0), "auto", kMixed);
  ASSERT_TRUE(communicator->Prepare().ok());
  communicator->Withdraw({1, 1});
  communicator->Abort("over");
  for (int64_t count : {1, 1000}) {
    communicator->Start({1, 1}, AllreduceOf(count), nullptr,
                        [](const absl::Status& status) { EXPECT_EQ(status, absl::AbortedError("over")); });
  }
  EXPECT_THAT(log_, ElementsAre("tcp withdraws", "tcp aborts", "shm withdraws", "shm aborts", "shm", "tcp aborts",
                                "shm aborts"))
      << "shm is broken by that, and breaks the others";
}

TEST_F(SelectingCommunicatorTest, AFailureOfOneMediumBreaksAll) {
  refusals_["device"] = absl::DeadlineExceededError("rank 1 did not come");
  const auto communicator = Make(collective::TestGroup(2, 0), "auto", kMixed);
  ASSERT_TRUE(communicator->Prepare().ok());
  for (DeviceKind memory : {DeviceKind::kAccelerator, DeviceKind::kHost, DeviceKind::kAccelerator}) {
    communicator->Start({1, 1}, AllreduceOf(1, memory), nullptr,
                        [&](const absl::Status& status) { EXPECT_EQ(status, refusals_["device"]); });
  }
  EXPECT_THAT(asked_, ElementsAre("tcp", "device")) << "nobody is asked again";
  EXPECT_THAT(log_, ElementsAre("tcp aborts"));
}

// Rank 1 of three cannot use the first medium: nobody makes it, all say why.
TEST_F(SelectingCommunicatorTest, WhatOneMemberCannotUseNobodyMakes) {
  static constexpr SelectorRow kTable[] = {
      {OpKind::kUnspecified, DeviceKind::kHost, 0, kNoLimit, WorldShape::kAny, "fast"},
      {OpKind::kUnspecified, DeviceKind::kHost, 0, kNoLimit, WorldShape::kAny, "slow"}};
  for (bool usable : {false, true}) {
    collective::LocalBootstrap bootstrap;
    std::vector<std::string> names(3);
    std::vector<std::thread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        std::vector<std::string> log;
        std::vector<collective::Medium> media(2);
        media[0].name = "fast";
        media[0].usable = [rank, usable] {
          return usable || rank != 1 ? absl::OkStatus() : absl::FailedPreconditionError("no library");
        };
        media[1].name = "slow";
        for (collective::Medium& medium : media) {
          medium.make = [&log, name = medium.name](const collective::Group&, collective::Bootstrap*, device::Device*) {
            return std::make_unique<Named>(name, &log);
          };
        }
        SelectingCommunicator communicator(collective::TestGroup(3, rank), &bootstrap, {kTable, media, "auto"});
        EXPECT_TRUE(communicator.Prepare().ok());
        names[rank] = communicator.name();
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_THAT(names, testing::Each(usable ? "fast" : "slow"));
  }
}

// NCCL cannot be had, and what is left goes through host memory.
class HostPathWarningTest : public SelectingCommunicatorTest {
 protected:
  HostPathWarningTest() { refusals_["fast"] = absl::UnavailableError("rank 1 has no NCCL"); }

  // What it says on stderr while some collectives on a device go through it.
  std::string Said(const collective::Group& group, const std::string& override_name = "auto") {
    static constexpr SelectorRow kTable[] = {
        {OpKind::kAllreduce, DeviceKind::kHost, 0, kNoLimit, WorldShape::kAny, "tcp"},
        {OpKind::kUnspecified, DeviceKind::kAccelerator, 0, kNoLimit, WorldShape::kAny, "fast"},
        {OpKind::kUnspecified, DeviceKind::kAccelerator, 0, kNoLimit, WorldShape::kAny, "device"},
    };
    testing::internal::CaptureStderr();
    const auto communicator = Make(group, override_name, kTable, {"fast"});
    EXPECT_TRUE(communicator->Prepare().ok());
    for (int64_t count : {1, 2, 3}) {
      communicator->Start({1, static_cast<uint64_t>(count)}, AllreduceOf(count, DeviceKind::kAccelerator), nullptr,
                          [](const absl::Status& status) { EXPECT_TRUE(status.ok()) << status; });
    }
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(HostPathWarningTest, IsGivenOnceForAProcessSet) {
  for (uint32_t process_set : {0, 3}) {
    collective::Group group = collective::TestGroup(2, 0);
    group.process_set = process_set;
    EXPECT_THAT(Said(group), testing::MatchesRegex("farandole warning [^\n]*: tensors on GPUs go through host memory, "
                                                   "which is slow, among the 2 ranks of process set " +
                                                   std::to_string(process_set) + ": not fast: rank 1 has no NCCL\n"));
  }
}

TEST_F(HostPathWarningTest, IsGivenByTheFirstMemberAlone) {
  EXPECT_EQ(Said(collective::TestGroup(2, 1)), "");
  EXPECT_EQ(Said(collective::TestGroup(3, 2)), "");
  EXPECT_EQ(Said(collective::TestGroup(1, 0)), "") << "alone, nothing is slow";
}

TEST_F(HostPathWarningTest, IsNotGivenToWhoHasAskedForThatPath) {
  EXPECT_EQ(Said(collective::TestGroup(2, 0), "device"), "");
  EXPECT_THAT(Said(collective::TestGroup(2, 0), "tcp"), HasSubstr("go through host memory"))
      << "a medium of the host's says nothing of GPUs";
}

TEST_F(HostPathWarningTest, IsNotGivenWhereTheFirstChoiceServes) {
  refusals_.clear();
  EXPECT_EQ(Said(collective::TestGroup(2, 0)), "");
}

// Ends what is under way when it goes, as the contract wants.
class EndingLast final : public collective::Communicator {
 public:
  ~EndingLast() override {
    if (done_ != nullptr) done_(absl::AbortedError("the communicator is gone"));
  }
  std::string name() const override { return "ending last"; }
  int position() const override { return 0; }
  int size() const override { return 1; }
  int64_t FusedBytesMax(DeviceKind memory, device::Device* device) override { return kNoLimit; }
  void Start(const collective::Instance& instance, const collective::Collective& collective, const Enqueued& enqueued,
             Done done) override {
    done_ = std::move(done);
  }
  void Withdraw(const collective::Instance& instance) override {}
  void Abort(const std::string& reason) override {}
  Rank SuspectRank() const override { return Rank(); }

 private:
  Done done_;
};

TEST_F(SelectingCommunicatorTest, WhatIsUnderWayEndsWithIt) {
  auto communicator = Make(collective::TestGroup(1, 0));
  media_.front().make = [](const collective::Group&, collective::Bootstrap*, device::Device*) {
    return std::make_unique<EndingLast>();
  };
  absl::Status status;
  communicator->Start({1, 1, 0}, {collective::Barrier()}, nullptr,
                      [&status](const absl::Status& told) { status = told; });
  EXPECT_TRUE(status.ok());
  communicator = nullptr;
  EXPECT_TRUE(absl::IsAborted(status));
}

// What is asked for by name for the host does not bind devices, nor the other way round.
TEST(MediaTest, TheOverrideBindsTheMemoryOfItsMedium) {
  const std::map<std::string, std::string> host_of = {
      {"auto", "shm"}, {"shm", "shm"}, {"staged", "shm"}, {"nccl", "shm"}};
  for (const auto& [override_name, medium] : host_of) {
    collective::LocalBootstrap bootstrap;
    MediaResources resources;
    resources.override_name = override_name;
    const std::vector<collective::Medium> media = BuiltInMedia(resources);
    std::vector<std::thread> members;
    for (int position = 0; position < 2; ++position) {
      members.emplace_back([&, position, medium = medium, override_name = override_name] {
        SelectingCommunicator communicator(collective::TestGroup(2, position), &bootstrap,
                                           {BuiltInSelectorTable(), media, override_name});
        const absl::Status prepared = communicator.Prepare();
        EXPECT_TRUE(prepared.ok()) << override_name << ": " << prepared;
        EXPECT_THAT(communicator.name(), testing::StartsWith(medium)) << override_name;
        // Of a device, by one that only adds zeros: without libraries for GPUs by way of the host.
        collective::Collective zeros{collective::Allreduce{DataType::kInt32, {{nullptr, nullptr, 5}}},
                                     DeviceKind::kAccelerator};
        absl::Status status = absl::UnknownError("not told");
        communicator.Start({1, 1, 0}, zeros, nullptr, [&status](const absl::Status& told) { status = told; });
        EXPECT_EQ(status.ok(), override_name != "nccl") << override_name << ": " << status;
      });
    }
    for (std::thread& member : members) member.join();
  }
}

TEST(MediaTest, EachRowOfTheTableNamesOneThatWorksOnItsMemory) {
  const std::vector<collective::Medium> media = BuiltInMedia({});
  for (const SelectorRow& row : BuiltInSelectorTable()) {
    int found = 0;
    for (const collective::Medium& medium : media) {
      if (medium.name != row.medium) continue;
      ++found;
      EXPECT_THAT(medium.memory, testing::Contains(row.memory)) << row.medium;
    }
    EXPECT_EQ(found, 1) << row.medium;
  }
}

}  // namespace
}  // namespace farandole::worker::select
