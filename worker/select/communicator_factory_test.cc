#include "worker/select/communicator_factory.h"

#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/collective/run_testing.h"

namespace farandole::worker::select {
namespace {

// Two ranks that share an agent build what `override_name` says and sum with it. Returns its name.
std::string BuiltBy(const std::string& override_name, bool one_agent) {
  collective::LocalBootstrap bootstrap;
  std::string names[2];
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 2; ++rank) {
    threads.emplace_back([&, rank] {
      collective::Group group = collective::TestGroup(2, rank);
      group.data_key = "secret";
      if (!one_agent) group.members[1].host_number = 1;
      CommunicatorFactory factory(override_name);
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
        CommunicatorFactory factory("auto");
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

TEST(CommunicatorFactoryTest, BothWhereSomeShareAnAgent) {
  collective::LocalBootstrap bootstrap;
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 3; ++rank) {
    threads.emplace_back([&, rank] {
      collective::Group group = collective::TestGroupOnHosts({0, 1, 0}, rank);
      group.data_key = "secret";
      CommunicatorFactory factory("auto");
      auto communicator = factory.Make(group, &bootstrap);
      ASSERT_TRUE(communicator.ok()) << communicator.status();
      EXPECT_EQ((*communicator)->name(), "hier");
      float value = 1;
      EXPECT_TRUE(collective::SumToEnd(communicator->get(), {1, 1, 0}, &value, 1).ok());
      EXPECT_EQ(value, 3);
      EXPECT_TRUE(collective::RunToEnd(communicator->get(), {1, 2, 0}, collective::Barrier()).ok());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(CommunicatorFactoryTest, AloneNeedsNobody) {
  CommunicatorFactory factory("auto");
  auto communicator = factory.Make(collective::TestGroup(1, 0), nullptr);
  ASSERT_TRUE(communicator.ok()) << communicator.status();
  float values[] = {1, 2};
  EXPECT_TRUE(collective::SumToEnd(communicator->get(), {}, values, 2).ok());
  EXPECT_EQ(values[1], 2);
}

}  // namespace
}  // namespace farandole::worker::select
