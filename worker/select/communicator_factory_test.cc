#include "worker/select/communicator_factory.h"

#include <dlfcn.h>

#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "transport/verbs/fake_ibverbs.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/collective/run_testing.h"

namespace farandole::worker::select {
namespace {

// Two ranks with these settings build a communicator and sum with it. Returns its name.
std::string BuiltWith(const std::vector<CommunicatorFactory::Settings>& settings, bool one_agent) {
  collective::LocalBootstrap bootstrap;
  std::string names[2];
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      collective::Group group = collective::TestGroup(2, rank);
      group.data_key = "secret";
      if (!one_agent) group.members[1].host_number = 1;
      CommunicatorFactory factory(settings[rank]);
      auto communicator = factory.Make(group, &bootstrap);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      names[rank] = (*communicator)->name();
      for (int round = 1; round <= 3; ++round) {
        constexpr int64_t kCount = 100000;
        std::vector<float> data(kCount);
        char* const bytes = reinterpret_cast<char*>(data.data());
        collective::FillOperand(DataType::kFloat32, bytes, kCount, rank, round);
        const collective::Instance instance{1, static_cast<uint64_t>(round), 0};
        const absl::Status s = collective::SumToEnd(communicator->get(), instance, data.data(), kCount);
        ASSERT_TRUE(s.ok()) << s;
        ASSERT_EQ(collective::WrongCell(DataType::kFloat32, bytes, kCount, 2, round), -1);
      }
      // Nobody closes while the other may still receive.
      ASSERT_TRUE(collective::RunToEnd(communicator->get(), {1, 9, 0}, collective::Barrier()).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(names[0], names[1]);
  return names[0];
}

// A machine that has an RDMA device.
CommunicatorFactory::Settings WithRdma(const std::string& transport = "auto") {
  CommunicatorFactory::Settings settings;
  settings.transports.wanted = transport;
  settings.transports.verbs.library = "transport/verbs/fake_ibverbs.so";
  return settings;
}

CommunicatorFactory::Settings WithoutRdma(const std::string& transport = "auto") {
  CommunicatorFactory::Settings settings = WithRdma(transport);
  settings.transports.verbs.library = "/nowhere/libibverbs.so.1";
  return settings;
}

std::string BuiltBy(const std::string& override_name, bool one_agent) {
  CommunicatorFactory::Settings settings = WithoutRdma();
  settings.override_name = override_name;
  return BuiltWith({settings, settings}, one_agent);
}

// What a test sets in the fake of the library, as it was before when the object goes.
class FakeVerbsOf {
 public:
  FakeVerbsOf() : library_(dlopen(WithRdma().transports.verbs.library.c_str(), RTLD_NOW)) {
    verbs_ = static_cast<transport::verbs::FakeVerbs*>(dlsym(library_, "fake_ibverbs"));
  }
  ~FakeVerbsOf() {
    verbs_->retry_ms = 20'000;
    verbs_->deaf[0] = false;
    dlclose(library_);
  }
  transport::verbs::FakeVerbs* operator->() const { return verbs_; }

 private:
  void* const library_;
  transport::verbs::FakeVerbs* verbs_ = nullptr;
};

TEST(CommunicatorFactoryTest, RdmaBetweenAgentsThatBothHaveIt) {
  EXPECT_EQ(BuiltWith({WithRdma(), WithRdma()}, false), "verbs");
  EXPECT_EQ(BuiltWith({WithRdma("verbs"), WithRdma("auto")}, false), "verbs");
}

TEST(CommunicatorFactoryTest, TcpIfOneHasNoRdmaOrDoesNotWantIt) {
  EXPECT_EQ(BuiltWith({WithRdma(), WithoutRdma()}, false), "tcp");
  EXPECT_EQ(BuiltWith({WithRdma("tcp"), WithRdma("tcp")}, false), "tcp");
}

// Two devices whose packets do not arrive.
TEST(CommunicatorFactoryTest, TcpWhereRdmaLeadsNowhere) {
  const FakeVerbsOf fake;
  fake->retry_ms = 50;
  fake->deaf[0] = true;
  EXPECT_EQ(BuiltWith({WithRdma(), WithRdma()}, false), "tcp");
}

TEST(CommunicatorFactoryTest, RdmaThatIsAskedForAndNotThereIsAnError) {
  collective::LocalBootstrap bootstrap;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      collective::Group group = collective::TestGroup(2, rank);
      group.data_key = "secret";
      group.members[1].host_number = 1;
      CommunicatorFactory factory(rank == 0 ? WithRdma("verbs") : WithoutRdma("verbs"));
      const absl::Status status = factory.Make(group, &bootstrap).status();
      EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
      EXPECT_THAT(status.message(), testing::AllOf(testing::HasSubstr("not verbs: rank 1"),
                                                   testing::HasSubstr("/nowhere/libibverbs.so.1"),
                                                   testing::HasSubstr("not tcp: FARANDOLE_TRANSPORT=verbs")));
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CommunicatorFactoryTest, SharedMemoryUnderOneAgent) { EXPECT_EQ(BuiltBy("auto", true), "shm"); }

TEST(CommunicatorFactoryTest, TcpBetweenAgents) { EXPECT_EQ(BuiltBy("auto", false), "tcp"); }

TEST(CommunicatorFactoryTest, TcpWhenAskedFor) { EXPECT_EQ(BuiltBy("tcp", true), "tcp"); }

// Ranks 0 and 2 share a host, rank 1 is elsewhere; the set of an id that is used again starts anew.
TEST(CommunicatorFactoryTest, AProcessSetOnOneHostSharesMemory) {
  collective::LocalBootstrap bootstrap;
  std::vector<std::thread> threads;
  for (int position = 0; position < 2; ++position) {
    threads.emplace_back([&, position] {
      collective::Group group = collective::TestGroup(3, 0);
      group.members[1].host_number = 1;
      group.members.erase(group.members.begin() + 1);
      group.position = position;
      group.process_set = 1;
      for (const char* key : {"1.5", "1.9"}) {
        group.key = key;
        CommunicatorFactory factory({});
        auto communicator = factory.Make(group, &bootstrap);
        ASSERT_TRUE(communicator.ok()) << communicator.status();
        EXPECT_EQ((*communicator)->name(), "shm");
        float value = 1 + position;
        for (uint64_t anchor = 1; anchor <= 5; ++anchor) {
          ASSERT_TRUE(collective::SumToEnd(communicator->get(), {1, anchor, 0}, &value, 1).ok());
        }
        EXPECT_EQ(value, 48);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Ranks 0 and 2 share an agent, rank 1 has another one. Returns what all of them say of how they communicate.
std::string BuiltOnTwoHosts(const std::vector<CommunicatorFactory::Settings>& settings) {
  collective::LocalBootstrap bootstrap;
  std::string names[3];
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      collective::Group group = collective::TestGroupOnHosts({0, 1, 0}, rank);
      group.data_key = "secret";
      CommunicatorFactory factory(settings[rank]);
      auto communicator = factory.Make(group, &bootstrap);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      names[rank] = (*communicator)->CommunicatesBy();
      float value = 1;
      EXPECT_TRUE(collective::SumToEnd(communicator->get(), {1, 1, 0}, &value, 1).ok());
      EXPECT_EQ(value, 3);
      EXPECT_TRUE(collective::RunToEnd(communicator->get(), {1, 2, 0}, collective::Barrier()).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(names[0], names[1]);
  EXPECT_EQ(names[0], names[2]);
  return names[0];
}

TEST(CommunicatorFactoryTest, BothWhereSomeShareAnAgent) {
  using testing::AllOf, testing::HasSubstr, testing::StartsWith;
  EXPECT_THAT(BuiltOnTwoHosts({WithoutRdma(), WithoutRdma(), WithoutRdma()}),
              AllOf(StartsWith("CPU tensors by hier (not verbs: rank 0"), HasSubstr("/nowhere/libibverbs.so.1")));
  EXPECT_EQ(BuiltOnTwoHosts({WithRdma(), WithRdma(), WithRdma()}), "CPU tensors by hier over verbs");
  EXPECT_THAT(BuiltOnTwoHosts({WithRdma(), WithRdma(), WithoutRdma()}),
              StartsWith("CPU tensors by hier (not verbs: rank 2"));
}

TEST(CommunicatorFactoryTest, AloneNeedsNobody) {
  CommunicatorFactory factory({});
  auto communicator = factory.Make(collective::TestGroup(1, 0), nullptr);
  ASSERT_TRUE(communicator.ok()) << communicator.status();
  float values[] = {1, 2};
  EXPECT_TRUE(collective::SumToEnd(communicator->get(), {}, values, 2).ok());
  EXPECT_EQ(values[1], 2);
}

}  // namespace
}  // namespace farandole::worker::select
