// Who goes on together where a member cannot open channels over RDMA, or dies meanwhile.
#include "worker/select/transports.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collective/communicator_testing.h"
#include "worker/collective/local_bootstrap.h"

namespace farandole::worker::select {
namespace {

using testing::Each;

constexpr int kMembers = 3;

// One in which some member never comes.
class WaitingCommunicator : public collective::Communicator {
 public:
  std::string name() const override { return "waiting"; }
  int position() const override { return 0; }
  int size() const override { return kMembers; }
  int64_t FusedBytesMax(DeviceKind, device::Device*) override { return 1; }
  void Start(const collective::Instance&, const collective::Collective&, const Enqueued&, Done done) override {
    aborted_.WaitForNotification();
    done(absl::AbortedError(reason_));
  }
  void Withdraw(const collective::Instance&) override {}
  void Abort(const std::string& reason) override {
    reason_ = reason;
    aborted_.Notify();
  }
  Rank SuspectRank() const override { return Rank(); }

 private:
  std::string reason_;
  absl::Notification aborted_;
};

// Over a network that loses every packet of a long message, and so all that needs them.
class ShortMessagesCommunicator final : public WaitingCommunicator {
 public:
  void Start(const collective::Instance& instance, const collective::Collective& collective, const Enqueued& enqueued,
             Done done) override {
    const auto* const alltoall = std::get_if<collective::Alltoall>(&collective.what);
    const bool arrives =
        alltoall == nullptr || *std::min_element(alltoall->send_bytes.begin(), alltoall->send_bytes.end()) <= 4096;
    if (arrives) return done(absl::OkStatus());
    WaitingCommunicator::Start(instance, collective, enqueued, std::move(done));
  }
};

// Of a generation that may end.
class EndingBootstrap final : public collective::Bootstrap {
 public:
  absl::Status Put(const std::string& key, const std::string& value) override {
    return over ? absl::AbortedError("rank 1 died") : local_.Put(key, value);
  }
  absl::StatusOr<std::string> Get(const std::string& key, uint32_t timeout_ms) override {
    const TimePoint end = Clock::Monotonic().Now().PlusMs(timeout_ms);
    for (;;) {
      if (over) return absl::AbortedError("rank 1 died");
      absl::StatusOr<std::string> found = local_.Get(key, std::min<uint32_t>(timeout_ms, 20));
      if (found.ok() || end <= Clock::Monotonic().Now()) return found;
    }
  }
  absl::StatusOr<UniqueFd> Segment(const std::string& key, uint64_t bytes) override {
    return local_.Segment(key, bytes);
  }

  std::atomic<bool> over{false};

 private:
  collective::LocalBootstrap local_;
};

// What each member gets that makes `make(position)`.
std::vector<absl::Status> Outcomes(collective::Bootstrap* bootstrap, uint32_t setup_timeout_ms,
                                   const std::function<Built(int position)>& make) {
  std::vector<absl::Status> statuses(kMembers);
  std::vector<std::thread> threads;
  for (int position = 0; position < kMembers; ++position) {
    threads.emplace_back([&, position] {
      collective::Group group = collective::TestGroup(kMembers, position);
      group.setup_timeout_ms = setup_timeout_ms;
      statuses[position] =
          OverVerbs(group, bootstrap, "verbs", nullptr, [&](transport::Transport*) { return make(position); }).status();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

// Over TCP, and over RDMA.
std::vector<std::string> ListenAt(const std::string& given, const std::string& of_group) {
  Transports::Settings settings;
  settings.data_address = given;
  settings.verbs.library = "transport/verbs/fake_ibverbs.so";
  Transports transports(settings);
  transports.SetDataAddress(of_group);
  std::vector<std::string> addresses;
  for (transport::Transport* transport : {transports.Tcp().value(), transports.Verbs().value()}) {
    const std::string address = transport->Listen().value();
    addresses.push_back(address.substr(0, address.rfind(':')));
  }
  return addresses;
}

TEST(TransportsTest, ListenWhereTheyWereToldOrWhereTheGroupFindsThem) {
  EXPECT_THAT(ListenAt("127.0.0.2", "127.0.0.3"), Each("127.0.0.2"));
  EXPECT_THAT(ListenAt("", "127.0.0.3"), Each("127.0.0.3"));
  EXPECT_THAT(ListenAt("", ""), Each("127.0.0.1"));
}

TEST(OverVerbsTest, NobodyWaitsForAMemberThatCouldNotOpenItsChannels) {
  EndingBootstrap bootstrap;
  const std::vector<absl::Status> statuses = Outcomes(&bootstrap, 10000, [](int position) -> Built {
    if (position == 1) return absl::DeadlineExceededError("no connection");
    return std::make_unique<WaitingCommunicator>();
  });
  for (const absl::Status& status : statuses) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_NE(status.message().find("rank 1"), std::string::npos) << status;
  }
}

TEST(OverVerbsTest, AProbeThatLastsHasABound) {
  EndingBootstrap bootstrap;
  const auto make = [](int) -> Built { return std::make_unique<WaitingCommunicator>(); };
  for (const absl::Status& status : Outcomes(&bootstrap, 500, make)) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    EXPECT_NE(status.message().find("no answer over RDMA"), std::string::npos) << status;
  }
}

TEST(OverVerbsTest, AProbeSendsEveryMemberMoreThanAPacket) {
  EndingBootstrap bootstrap;
  const auto make = [](int) -> Built { return std::make_unique<ShortMessagesCommunicator>(); };
  for (const absl::Status& status : Outcomes(&bootstrap, 500, make)) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  }
}

TEST(OverVerbsTest, AProbeEndsWithItsGeneration) {
  EndingBootstrap bootstrap;
  std::atomic<int> made{0};
  std::thread death([&] {
    while (made < kMembers) std::this_thread::yield();
    bootstrap.over = true;
  });
  const TimePoint start = Clock::Monotonic().Now();
  const std::vector<absl::Status> statuses = Outcomes(&bootstrap, 60000, [&](int) -> Built {
    ++made;
    return std::make_unique<WaitingCommunicator>();
  });
  death.join();
  for (const absl::Status& status : statuses) EXPECT_TRUE(absl::IsAborted(status)) << status;
  EXPECT_LT(Clock::Monotonic().Now().MsSince(start), 20000);
}

}  // namespace
}  // namespace farandole::worker::select
