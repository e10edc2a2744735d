#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "gtest/gtest.h"
#include "transport/inproc/transport.h"
#include "transport/tcp/transport.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"
#include "worker/hier/fake_hosts_testing.h"
#include "worker/os/event_count.h"
#include "worker/schedule/scheduled_communicator.h"
#include "worker/shm/shm_communicator.h"

// Withdraw, on every communicator that can: instances that some members enter and others never (D1 to D4).
namespace farandole::worker::select {
namespace {

constexpr DataType kType = DataType::kFloat32;
// From a few bytes to several chunks.
constexpr int64_t kCounts[] = {0, 1, 100, 1000, 5000, 40000, 100000};

struct Medium {
  std::string name;
  int ranks;
  bool shm() const { return name == "shm_spinning" || name == "shm_crowded"; }
};

// One member with a thread that plays its control plane.
class Player {
 public:
  Player(collective::BlockingCommunicator* communicator, int rank, int seed)
      : communicator_(communicator), rank_(rank), random_(seed) {
    control_ = std::thread([this, seed] { Control(seed); });
  }
  ~Player() {
    stop_ = true;
    asked_.Advance();
    control_.join();
  }

  // An allreduce of this instance, during which, sooner or later, Withdraw is called. The sum is checked if it is OK.
  absl::Status Withdrawn(const collective::Instance& instance, int64_t count) {
    withdraw_ = instance;
    const uint32_t done = withdrawn_.Value();
    asked_.Advance();
    const absl::Status status = Sum(instance, count);
    while (withdrawn_.Value() == done) withdrawn_.WaitPast(done, -1);
    return status;
  }

  absl::Status Sum(const collective::Instance& instance, int64_t count) {
    Dawdle(&random_);
    const int round = static_cast<int>(instance.anchor);
    // In turns in memory that the communicator likes and in other.
    void* buffer = round % 3 == 0 ? communicator_->Buffer(count * 4) : nullptr;
    own_.resize(count * 4);
    char* const data = buffer != nullptr ? static_cast<char*>(buffer) : own_.data();
    collective::FillOperand(kType, data, count, rank_, round);
    // Both can be replayed, and a member without a part of its own must not complete before the others have come (D2).
    if (round % 4 == 2) return Scatter(instance, data, count);
    const absl::Status status = communicator_->Allreduce(instance, kType, data, count);
    if (status.ok()) {
      EXPECT_EQ(collective::WrongCell(kType, data, count, communicator_->size(), round), -1) << count;
    }
    return status;
  }

 private:
  // Parts of a third of the members are empty.
  absl::Status Scatter(const collective::Instance& instance, char* data, int64_t count) {
    const int ranks = communicator_->size(), round = static_cast<int>(instance.anchor);
    std::vector<int64_t> counts(ranks, 0);
    for (int64_t left = count, m = 0; m < ranks; ++m) {
      if ((m + round / 4) % 3 == 0) continue;
      counts[m] = m + 1 < ranks ? left / 2 : left;
      left -= counts[m];
    }
    const int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t{0});
    const int64_t before = std::accumulate(counts.begin(), counts.begin() + communicator_->position(), int64_t{0});
    const int64_t own = counts[communicator_->position()];
    collective::FillOperand(kType, data, all, rank_, round);
    std::vector<char> output(own * 4 + 1);
    const absl::Status status = communicator_->Reducescatter(instance, kType, data, output.data(), counts);
    if (status.ok()) {
      EXPECT_EQ(collective::WrongCell(kType, output.data(), own, ranks, round, before), -1) << count;
    }
    return status;
  }

  // Up to a few hundred microseconds, so that waits are found spinning, about to park and parked.
  static void Dawdle(std::mt19937* random) {
    if ((*random)() % 4 != 0) return;
    const int64_t end = Clock::Monotonic().Now().ns() + (*random)() % 300000;
    while (Clock::Monotonic().Now().ns() < end) std::this_thread::yield();
  }

  void Control(int seed) {
    std::mt19937 random(seed + 1000);
    for (uint32_t asked = 0;; ++asked) {
      while (asked_.Value() == asked) asked_.WaitPast(asked, -1);
      if (stop_) return;
      Dawdle(&random);
      communicator_->Withdraw(withdraw_);
      withdrawn_.Advance();
    }
  }

  collective::BlockingCommunicator* const communicator_;
  const int rank_;
  std::mt19937 random_;
  std::vector<char> own_;
  collective::Instance withdraw_;
  os::EventCount asked_, withdrawn_;
  std::atomic<bool> stop_{false};
  std::thread control_;
};

class WithdrawTest : public testing::TestWithParam<Medium> {
 protected:
  using Body = std::function<void(Player* self, int rank)>;

  int ranks() const { return GetParam().ranks; }

  void RunRanks(const Body& body) {
    collective::LocalBootstrap bootstrap;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < ranks(); ++rank) {
      threads.emplace_back([&, rank] {
        std::unique_ptr<transport::Transport> transport;
        if (GetParam().name == "inproc" || GetParam().name == "hier")
          transport = std::make_unique<transport::inproc::InprocTransport>();
        if (GetParam().name == "tcp") transport = std::make_unique<transport::tcp::TcpTransport>();
        absl::StatusOr<std::unique_ptr<collective::BlockingCommunicator>> communicator =
            Make(rank, transport.get(), &bootstrap);
        ASSERT_TRUE(communicator.ok()) << communicator.status();
        {
          Player self(communicator->get(), rank, rank);
          body(&self, rank);
        }
        // Nobody closes while another may still receive.
        EXPECT_TRUE((*communicator)->Barrier(collective::Instance{1, 1 << 20, 0}).ok());
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  absl::StatusOr<std::unique_ptr<collective::BlockingCommunicator>> Make(int rank, transport::Transport* transport,
                                                                         collective::LocalBootstrap* bootstrap) {
    collective::Group group = collective::TestGroup(ranks(), rank);
    group.data_key = "key";
    if (GetParam().name == "hier") {
      std::vector<int> hosts;
      for (int other = 0; other < ranks(); ++other) hosts.push_back(other % 2);
      collective::Group on_hosts = collective::TestGroupOnHosts(hosts, rank);
      on_hosts.data_key = "key";
      return hier::HierarchicalCommunicator::Create(on_hosts, transport, bootstrap, hier::SmallHierarchicalOptions());
    }
    if (transport != nullptr) return schedule::ScheduledCommunicator::Create(group, transport, bootstrap);
    shm::ShmOptions options;
    options.chunk_bytes = 64 << 10;
    options.cpus = GetParam().name == "shm_crowded" ? 1 : 64;
    return shm::ShmCommunicator::Create(group, bootstrap, options);
  }
};

TEST_P(WithdrawTest, SomeEnterOthersNeverThenAllGoOn) {
  RunRanks([&](Player* self, int rank) {
    // The same on all ranks.
    std::mt19937 random(7);
    for (uint64_t round = 1; round <= 80; ++round) {
      const uint32_t starters = random() % ((1u << ranks()) - 1);
      const int64_t count = kCounts[random() % 7], next_count = kCounts[random() % 7];
      const collective::Instance instance{1, 2 * round, 0};
      if ((starters >> rank & 1) != 0) {
        const absl::Status status = self->Withdrawn(instance, count);
        ASSERT_TRUE(absl::IsCancelled(status)) << "round " << round << ": " << status;
      }
      // Others may wait in it while a starter is still inside the withdrawn one.
      const absl::Status status = self->Sum(collective::Instance{1, 2 * round + 1, 0}, next_count);
      ASSERT_TRUE(status.ok()) << "round " << round << ": " << status;
    }
  });
}

// No protocol withdraws what all have entered; it must not hang. In shared memory all know whether all have.
TEST_P(WithdrawTest, ThatRacesWithCompletionEndsForAll) {
  std::vector<std::vector<bool>> completed(ranks());
  RunRanks([&](Player* self, int rank) {
    std::mt19937 random(8);
    for (uint64_t round = 1; round <= 300; ++round) {
      const int64_t count = random() % 20 == 0 ? kCounts[random() % 7] : 1;
      const absl::Status status = self->Withdrawn(collective::Instance{1, 2 * round, 0}, count);
      ASSERT_TRUE(status.ok() || absl::IsCancelled(status)) << "round " << round << ": " << status;
      completed[rank].push_back(status.ok());
      const absl::Status next = self->Sum(collective::Instance{1, 2 * round + 1, 0}, count);
      ASSERT_TRUE(next.ok()) << "round " << round << ": " << next;
    }
  });
  for (int rank = 1; rank < ranks() && GetParam().shm(); ++rank)
    EXPECT_EQ(completed[rank], completed[0]) << "of rank " << rank;
}

std::vector<Medium> Media() {
  std::vector<Medium> media;
  for (const char* name : {"shm_spinning", "shm_crowded", "inproc", "tcp", "hier"}) {
    for (int ranks : {2, 3, 4}) media.push_back({name, ranks});
    // Hosts of two and of three.
    if (std::string(name) == "hier") media.push_back({name, 5});
  }
  return media;
}

INSTANTIATE_TEST_SUITE_P(Media, WithdrawTest, testing::ValuesIn(Media()),
                         [](const auto& info) { return info.param.name + std::to_string(info.param.ranks); });

}  // namespace
}  // namespace farandole::worker::select
