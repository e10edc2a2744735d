// What a machine may lack, and a peer that dies. Channels themselves are held to tests/conformance.
#include "transport/verbs/transport.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "transport/verbs/fake_fabric_testing.h"
#include "transport/verbs/library.h"

namespace farandole::transport::verbs {
namespace {

std::string Unusable(VerbsOptions options = {}) {
  if (options.library == VerbsOptions().library) options.library = kFakeLibrary;
  const absl::Status status = VerbsTransport(options).Usable();
  EXPECT_TRUE(absl::IsUnavailable(status)) << status;
  EXPECT_FALSE(VerbsTransport(options).Listen().ok());
  return std::string(status.message());
}

void ExpectContains(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(TransportTest, SaysWhatAMachineLacks) {
  FakeVerbs& fake = ResetFake();
  VerbsOptions options;
  options.library = "libibverbs-that-is-not-there.so.1";
  ExpectContains(Unusable(options), "libibverbs could not be loaded");
  ExpectContains(Unusable(options), "ibverbs-providers");
  options.library = "libdl.so.2";
  ExpectContains(Unusable(options), "libdl.so.2 has no ibv_get_device_list; rdma-core 32");
  fake.devices = 0;
  ExpectContains(Unusable(), "this machine has no RDMA device");
  fake.devices = 1;
  fake.active = false;
  ExpectContains(Unusable(), "fake0 port 1 is not active");
  fake.active = true;
  fake.addresses = false;
  ExpectContains(Unusable(), "fake0 port 1 has no GID of RoCE v2");
  options = {};
  options.eager_bytes = 1;
  ExpectContains(Unusable(options), "eager_bytes is 1");
  ResetFake();
}

TEST(TransportTest, SeveralThreadsMayLoadTheLibraryAtOnce) {
  FakeVerbs& fake = ResetFake();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([] { EXPECT_TRUE(VerbsLibrary::Load(kFakeLibrary).ok()); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(fake.misuses, 0) << fake.last_misuse.load();
}

TEST(TransportTest, NamesTheLimitOfLockedMemory) {
  FakeVerbs& fake = ResetFake();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_MEMLOCK, &before), 0);
  rlimit low = before;
  low.rlim_cur = 64 << 10;
  ASSERT_EQ(setrlimit(RLIMIT_MEMLOCK, &low), 0);
  fake.locked_bytes_max = 64 << 10;
  VerbsOptions options;
  options.library = kFakeLibrary;
  VerbsTransport transport(options);
  const absl::Status usable = transport.Usable();
  EXPECT_TRUE(absl::IsUnavailable(usable)) << usable;
  ExpectContains(std::string(usable.message()), "this process may lock 64 KiB (ulimit -l)");
  ExpectContains(std::string(usable.message()), "LimitMEMLOCK=infinity");
  std::vector<char> bytes(1 << 20);
  EXPECT_TRUE(absl::IsResourceExhausted(transport.Register(bytes.data(), bytes.size()).status()));
  // Who may lock more than the limit is told nothing.
  fake.locked_bytes_max = int64_t{1} << 40;
  EXPECT_TRUE(transport.Usable().ok()) << transport.Usable();
  setrlimit(RLIMIT_MEMLOCK, &before);
}

TEST(TransportTest, SendsWhatThisProcessMayOnlyRead) {
  FakeFabric fabric;
  constexpr size_t kBytes = 1 << 20;
  void* const pages = mmap(nullptr, kBytes, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(pages, MAP_FAILED);
  auto out = fabric.transport_a->Register(pages, kBytes);
  ASSERT_TRUE(out.ok()) << out.status();
  auto in = fabric.MakeBuffer(fabric.transport_b.get(), kBytes, 'x');
  Ended ended;
  fabric.b->Receive({1, 1}, in->block(), Clock::Monotonic().Now().PlusMs(20000), ended.Expect());
  fabric.a->Send({1, 1}, {out->get(), 0, kBytes}, Clock::Monotonic().Now().PlusMs(20000), ended.Expect());
  for (const absl::Status& status : ended.Wait()) EXPECT_TRUE(status.ok()) << status;
  EXPECT_EQ(in->bytes, std::vector<char>(kBytes, 0));
  *out = nullptr;
  munmap(pages, kBytes);
}

TEST(TransportTest, TellsItsChoice) {
  FakeVerbs& fake = ResetFake();
  VerbsOptions options;
  options.library = kFakeLibrary;
  EXPECT_EQ(VerbsTransport(options).Choice().value_or(""),
            "RDMA over fake0 port 1 (RoCE v2, GID 3 = ::ffff:127.0.0.1, MTU 4096)");
  fake.ethernet = false;
  EXPECT_EQ(VerbsTransport(options).Choice().value_or(""),
            "RDMA over fake0 port 1 (InfiniBand, LID 10, GID 0 = fe80::1, MTU 4096)");
}

TEST(TransportTest, InfiniBandAndDevicesWithoutInlineDataWork) {
  ResetFake().ethernet = false;
  for (int inline_bytes : {220, 0}) {
    FakeFabric fabric;
    fabric.fake.ethernet = false;
    fabric.fake.inline_bytes = inline_bytes;
    Ended ended;
    auto out = fabric.MakeBuffer(fabric.transport_a.get(), 100000, 'x');
    auto in = fabric.MakeBuffer(fabric.transport_b.get(), 100100);
    for (uint64_t i = 0; i < 300; ++i) {
      const size_t bytes = i % 2 == 0 ? 100 : 100000;
      const size_t place = bytes == 100 ? 100000 : 0;
      fabric.b->Receive({1, i}, {in->memory.get(), place, bytes}, TimePoint::Infinite(), ended.Expect());
      fabric.a->Send({1, i}, {out->memory.get(), 0, bytes}, TimePoint::Infinite(), ended.Expect());
    }
    for (const absl::Status& status : ended.Wait()) ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(in->bytes, std::vector<char>(100100, 'x'));
  }
}

// A process at the other end. Forked while this one has no threads, told the address later.
class Peer {
 public:
  Peer() {
    EXPECT_EQ(pipe2(address_, O_CLOEXEC), 0);
    pid_ = fork();
    if (pid_ == 0) Run();
  }
  ~Peer() {
    for (int fd : address_) close(fd);
  }
  void Tell(const std::string& address) { EXPECT_GT(write(address_[1], address.data(), address.size()), 0); }
  void Kill() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

 private:
  [[noreturn]] void Run() {
    close(address_[1]);
    char text[64] = {};
    if (read(address_[0], text, sizeof text - 1) <= 0) _exit(1);
    VerbsOptions options;
    options.library = kFakeLibrary;
    VerbsTransport transport(options);
    absl::Notification met;
    std::unique_ptr<Channel> channel;
    transport.Connect(text, {"job/1", "1", "0", "key"}, TimePoint::Infinite(),
                      [&](absl::StatusOr<std::unique_ptr<Channel>> made) {
                        if (made.ok()) channel = *std::move(made);
                        met.Notify();
                      });
    met.WaitForNotification();
    std::vector<char> bytes(1 << 20);
    const auto memory = transport.Register(bytes.data(), bytes.size());
    Ended ended;
    channel->Receive({0, 2}, {memory->get(), 0, bytes.size()}, TimePoint::Infinite(), ended.Expect());
    channel->Send({0, 1}, {}, TimePoint::Infinite(), ended.Expect());
    for (;;) pause();
  }

  int address_[2];
  pid_t pid_ = 0;
};

TEST(TransportTest, APeerThatIsKilledIsNoticedAtOnce) {
  ResetFake();
  Peer peer;
  VerbsOptions options;
  options.library = kFakeLibrary;
  VerbsTransport transport(options);
  absl::Notification met;
  std::unique_ptr<Channel> channel;
  transport.Accept({"job/1", "0", "1", "key"}, TimePoint::Infinite(),
                   [&](absl::StatusOr<std::unique_ptr<Channel>> made) {
                     if (made.ok()) channel = *std::move(made);
                     met.Notify();
                   });
  peer.Tell(transport.Listen().value());
  met.WaitForNotification();
  ASSERT_NE(channel, nullptr);
  std::vector<char> bytes(1 << 20);
  auto memory = transport.Register(bytes.data(), bytes.size());
  Ended greeted, ended;
  channel->Receive({0, 1}, {}, TimePoint::Infinite(), greeted.Expect());
  ASSERT_TRUE(greeted.Wait(0).ok());
  channel->Receive({0, 3}, {memory->get(), 0, bytes.size()}, TimePoint::Infinite(), ended.Expect());
  channel->Send({0, 4}, {memory->get(), 0, bytes.size()}, TimePoint::Infinite(), ended.Expect());
  const TimePoint killed = Clock::Monotonic().Now();
  peer.Kill();
  for (const absl::Status& status : ended.Wait()) {
    EXPECT_TRUE(absl::IsUnavailable(status)) << status;
    ExpectContains(std::string(status.message()), "channel to 1: ");
  }
  EXPECT_LT(Clock::Monotonic().Now().MsSince(killed), 2000);
}

}  // namespace
}  // namespace farandole::transport::verbs
