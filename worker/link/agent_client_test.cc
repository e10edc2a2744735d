#include "worker/link/agent_client.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <deque>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/auth.h"
#include "base/unix_socket.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/codec/codec.h"
#include "worker/os/event_count.h"

namespace farandole::worker::link {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// The agent's end, driven by the test's thread.
class FakeAgent {
 public:
  explicit FakeAgent(const std::string& name) : listener_(ListenUnix(name).value()) {}

  void Accept() {
    pollfd wait{listener_.get(), POLLIN, 0};
    ASSERT_EQ(poll(&wait, 1, 10000), 1);
    UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    ASSERT_TRUE(fd.valid());
    peer_ = std::make_unique<FrameSocket>(std::move(fd));
    read_.clear();
  }
  void Close() { peer_ = nullptr; }

  void Say(const LocalDown& message, UniqueFd fd = UniqueFd()) {
    ASSERT_TRUE(peer_->Send(Encode(message), std::move(fd)).ok());
  }

  // The next message that is a T; others before it are an error of the test.
  template <typename T>
  T Hear() {
    while (read_.empty()) {
      pollfd wait{peer_->fd(), POLLIN, 0};
      EXPECT_EQ(poll(&wait, 1, 10000), 1);
      std::vector<Frame> frames;
      EXPECT_TRUE(peer_->Receive(&frames).ok());
      for (Frame& frame : frames) read_.push_back(DecodeLocalUp(frame.bytes).value());
    }
    LocalUp message = std::move(read_.front());
    read_.pop_front();
    EXPECT_TRUE(std::holds_alternative<T>(message)) << "message " << message.index();
    return std::get<T>(message);
  }

 private:
  UniqueFd listener_;
  std::unique_ptr<FrameSocket> peer_;
  std::deque<LocalUp> read_;
};

// Notes what it hears.
class Listener final : public ControlLink::Listener {
 public:
  void OnLinkState(const LinkState& state) override {
    Note(absl::StrCat(state.connected, state.permanent, state.text));
  }
  void OnReceived(WorkerDown message) override { Note(absl::StrCat("down ", message.index())); }

  WorkerReport Report() override {
    WorkerReport report;
    report.generation.number = 1;
    report.batches = 7;
    return report;
  }

  std::string Next() {
    for (;;) {
      const uint32_t seen = count_.Value();
      {
        absl::MutexLock lock(&mutex_);
        if (!heard_.empty()) {
          std::string first = heard_.front();
          heard_.pop_front();
          return first;
        }
      }
      if (!count_.WaitPast(seen, 10000)) return "nothing";
    }
  }

  bool silent() {
    absl::MutexLock lock(&mutex_);
    return heard_.empty();
  }

 private:
  void Note(std::string what) {
    {
      absl::MutexLock lock(&mutex_);
      heard_.push_back(std::move(what));
    }
    count_.Advance();
  }

  os::EventCount count_;
  absl::Mutex mutex_;
  std::deque<std::string> heard_ ABSL_GUARDED_BY(mutex_);
};

class AgentClientTest : public testing::Test {
 protected:
  AgentClientTest() : client_(&loop_, name_, Incarnation(42)) {}
  ~AgentClientTest() override {
    client_.EndWaits("test over");
    loop_.Join();
  }

  void Start() {
    EXPECT_TRUE(loop_.Start().ok());
    loop_.Post([this] { client_.StartFromLoop(&listener_); });
  }
  void Attach() {
    agent_.Accept();
    EXPECT_EQ(agent_.Hear<farandole::Attach>().worker_incarnation, Incarnation(42));
    agent_.Say(Attached{"agent", "host", 3600000});
    agent_.Say(LinkState{true, "", false});
  }

  const std::string name_ = absl::StrCat("farandole-test-", RandomId());
  FakeAgent agent_{name_};
  Listener listener_;
  EventLoop loop_{"test-ctl"};
  AgentClient client_;
};

TEST_F(AgentClientTest, AttachesAndCarriesMessagesBothWays) {
  Start();
  Attach();
  EXPECT_EQ(listener_.Next(), "10");
  client_.Send(Leave{{3, 4}});
  EXPECT_EQ(std::get<Leave>(agent_.Hear<WorkerUp>()).generation.number, 3u);
  agent_.Say(WorkerDown(Stable{}));
  EXPECT_EQ(listener_.Next(), absl::StrCat("down ", WorkerDown(Stable{}).index()));
}

TEST_F(AgentClientTest, KeepsTheOrderOfMoreThanTheSocketHolds) {
  Start();
  Attach();
  EXPECT_EQ(listener_.Next(), "10");
  constexpr int kMessages = 3000;
  for (int i = 0; i < kMessages; ++i) client_.Send(Failed{{1, 1}, std::string(1000, 'x'), Rank(i)});
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(std::get<Failed>(agent_.Hear<WorkerUp>()).suspect_rank, Rank(i));
  }
}

TEST_F(AgentClientTest, HeartbeatsAreSaid) {
  Start();
  agent_.Accept();
  agent_.Hear<farandole::Attach>();
  agent_.Say(Attached{"agent", "host", 1});
  EXPECT_EQ(agent_.Hear<Heartbeat>().report.batches, 7u);
  EXPECT_EQ(agent_.Hear<Heartbeat>().report.batches, 7u);
}

TEST_F(AgentClientTest, RefusalIsPermanent) {
  Start();
  agent_.Accept();
  agent_.Hear<farandole::Attach>();
  agent_.Say(Refused{"version 0.2.0 is not 0.1.0"});
  EXPECT_EQ(listener_.Next(), "01the agent refuses this process: version 0.2.0 is not 0.1.0");
}

TEST_F(AgentClientTest, ComesBackAfterTheAgentCloses) {
  Start();
  Attach();
  EXPECT_EQ(listener_.Next(), "10");
  agent_.Close();
  EXPECT_THAT(listener_.Next(), HasSubstr("no agent on the socket"));
  client_.Send(Leave{});  // dropped: the next session says it
  Attach();
  EXPECT_EQ(listener_.Next(), "10");
  client_.Send(Ack{{1, 1}, 5, 5});
  EXPECT_EQ(std::get<Ack>(agent_.Hear<WorkerUp>()).received_through, 5u);
}

// What a script has submitted at once, of at least so many bytes.
WorkerUp Large(size_t bytes) {
  constexpr size_t kNameBytes = 4000;
  Announce announce;
  announce.generation = {1, 1};
  for (size_t i = 0; i <= bytes / kNameBytes; ++i) {
    Request request;
    request.signature.op = OpKind::kAllreduce;
    request.name = std::string(kNameBytes, 'x');
    announce.requests.push_back(std::move(request));
  }
  return WorkerUp(std::move(announce));
}

TEST_F(AgentClientTest, AnAgentThatLeavesTooMuchUnreadIsLeft) {
  Start();
  Attach();
  EXPECT_EQ(listener_.Next(), "10");
  // Also while another thread waits for what it says.
  std::atomic<bool> over{false};
  std::thread driver([&] { loop_.Drive([&] { return over.load(); }, 0); });
  const WorkerUp large = Large(1 << 20);
  for (size_t sent = 0; sent <= kUnsentBytesMax; sent += 1 << 20) client_.Send(large);
  EXPECT_THAT(listener_.Next(), AllOf(HasSubstr("00no agent on the socket"), HasSubstr("has left")));
  // What the new session says is not lost.
  Attach();
  EXPECT_EQ(listener_.Next(), "10");
  client_.Send(Ack{{1, 1}, 5, 5});
  EXPECT_EQ(std::get<Ack>(agent_.Hear<WorkerUp>()).received_through, 5u);
  over = true;
  loop_.WakeDriver();
  driver.join();
}

TEST_F(AgentClientTest, AMessageThatFitsNoFrameIsSaidAndIsTheLast) {
  Start();
  Attach();
  EXPECT_EQ(listener_.Next(), "10");
  client_.Send(Large(kFrameBytesMax));
  client_.Send(Ack{{1, 1}, 5, 5});
  EXPECT_THAT(listener_.Next(), AllOf(HasSubstr("01this process cannot tell its agent what it has submitted"),
                                      HasSubstr("submit fewer tensors at once")));
}

TEST_F(AgentClientTest, NobodyListensIsSaidWithTheName) {
  EventLoop loop("test-ctl-2");
  Listener listener;
  AgentClient client(&loop, name_ + "-absent", Incarnation(1));
  EXPECT_TRUE(loop.Start().ok());
  loop.Post([&] { client.StartFromLoop(&listener); });
  EXPECT_THAT(listener.Next(), HasSubstr(name_ + "-absent"));
  loop.Join();
}

TEST_F(AgentClientTest, SegmentBringsADescriptor) {
  Start();
  Attach();
  std::thread asker([&] {
    absl::StatusOr<UniqueFd> fd = client_.Segment({1, 2}, "shm", 4096);
    ASSERT_TRUE(fd.ok()) << fd.status();
    EXPECT_EQ(lseek(fd->get(), 0, SEEK_END), 12345);
    EXPECT_TRUE(fcntl(fd->get(), F_GETFD) & FD_CLOEXEC);
    EXPECT_EQ(client_.Segment({1, 2}, "more", 4096).status().message(), "no memory");
  });
  const SegmentRequest first = agent_.Hear<SegmentRequest>();
  EXPECT_EQ(first.key, "shm");
  EXPECT_EQ(first.size_bytes, 4096u);
  UniqueFd memory(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory.get(), 12345), 0);
  agent_.Say(SegmentReply{first.request_id, ""}, std::move(memory));
  agent_.Say(SegmentReply{agent_.Hear<SegmentRequest>().request_id, "no memory"});
  asker.join();
}

TEST_F(AgentClientTest, QuestionsAreAskedAgainThroughANewConnection) {
  Start();
  Attach();
  std::thread asker([&] {
    EXPECT_EQ(client_.Get({1, 2}, "key", 60000).value(), "value");
    EXPECT_EQ(client_.Put({1, 2}, "key", "other").code(), absl::StatusCode::kAlreadyExists);
  });
  EXPECT_EQ(agent_.Hear<LocalGet>().key, "key");
  agent_.Close();
  Attach();
  const LocalGet get = agent_.Hear<LocalGet>();
  EXPECT_EQ(get.timeout_ms, 60000u);
  agent_.Say(KeyReply{get.request_id, 0, "", "value"});
  agent_.Say(KeyReply{agent_.Hear<LocalPut>().request_id, 6, "holds another value", ""});
  asker.join();
}

TEST_F(AgentClientTest, EndWaitsEndsQuestions) {
  Start();
  Attach();
  absl::Status status;
  std::thread asker([&] { status = client_.Get({1, 2}, "key", 60000).status(); });
  agent_.Hear<LocalGet>();
  client_.EndWaits("rank 1 died");
  asker.join();
  EXPECT_EQ(status.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(status.message(), "rank 1 died");
  EXPECT_EQ(client_.Put({1, 2}, "key", "value").code(), absl::StatusCode::kAborted);
}

}  // namespace
}  // namespace farandole::worker::link
