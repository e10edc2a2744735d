#include "agent/local/local_server.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "agent/local/local_connection.h"
#include "base/auth.h"
#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "base/unix_socket.h"
#include "proto/codec/codec.h"
#include "proto/codec/frame.h"
#include "proto/version.h"

namespace farandole::agent::local {
namespace {

using testing::HasSubstr;

constexpr int kPatienceMs = 20000;

// Whether the agent has closed this connection, or does within kPatienceMs.
bool Closes(int fd) {
  pollfd wait{fd, POLLIN, 0};
  char byte;
  return poll(&wait, 1, kPatienceMs) == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}
bool Open(int fd) {
  char byte;
  return recv(fd, &byte, 1, MSG_DONTWAIT | MSG_PEEK) < 0 && errno == EAGAIN;
}

class LocalServerTest : public testing::Test {
 protected:
  using Connection = std::shared_ptr<LocalConnection>;

  ~LocalServerTest() override {
    loop_.RunHere([this] { server_ = nullptr; });
    loop_.Join();
  }

  void Serve(int64_t attach_ms) {
    ASSERT_TRUE(loop_.Start().ok());
    loop_.RunHere([&] {
      LocalConnection::Callbacks callbacks;
      callbacks.on_message = [this](const Connection& connection, const LocalUp& message) {
        if (const auto* attach = std::get_if<Attach>(&message)) connection->AttachFromLoop(attach->worker_incarnation);
        Note(absl::StrCat("message ", message.index()));
      };
      callbacks.on_closed = [this](const Connection&, const absl::Status& status) {
        Note(std::string(status.message()));
      };
      server_ = std::make_unique<LocalServer>(&loop_, callbacks, attach_ms);
      ASSERT_TRUE(server_->ListenFromLoop(name_).ok());
    });
  }
  UniqueFd Connect() { return ConnectUnix(name_).value(); }

  static void Say(int fd, const LocalUp& message) {
    FrameSocket socket(UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0)));
    ASSERT_TRUE(socket.Send(Encode(message)).ok());
    while (socket.unsent()) {
      pollfd wait{fd, POLLOUT, 0};
      ASSERT_EQ(poll(&wait, 1, kPatienceMs), 1);
      ASSERT_TRUE(socket.Flush().ok());
    }
  }

  // What the agent has noted, in order.
  std::string Next() {
    absl::MutexLock lock(&mutex_);
    const auto noted = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !noted_.empty(); };
    if (!mutex_.AwaitWithTimeout(absl::Condition(&noted), absl::Milliseconds(kPatienceMs))) return "nothing";
    std::string first = noted_.front();
    noted_.pop_front();
    return first;
  }
  void Note(std::string text) {
    absl::MutexLock lock(&mutex_);
    noted_.push_back(std::move(text));
  }

  const std::string name_ = absl::StrCat("farandole-test-", RandomId());
  const std::string attached_ = absl::StrCat("message ", LocalUp(Attach{}).index());
  EventLoop loop_{"test"};
  std::unique_ptr<LocalServer> server_;
  absl::Mutex mutex_;
  std::deque<std::string> noted_ ABSL_GUARDED_BY(mutex_);
};

constexpr int64_t kNeverMs = 3600000;

TEST_F(LocalServerTest, OnlyWhoHasAttachedMaySayMuch) {
  Serve(kNeverMs);
  const UniqueFd fd = Connect();
  // Just too much, of which no more than the length is said.
  const uint32_t length = LocalConnection::kUnattachedFrameBytesMax + 1;
  ASSERT_EQ(send(fd.get(), &length, sizeof length, 0), sizeof length);
  EXPECT_THAT(Next(), HasSubstr("a frame of 16385 bytes is announced, at most 16384 are taken"));
  EXPECT_TRUE(Closes(fd.get()));

  const UniqueFd worker = Connect();
  Say(worker.get(), LocalUp(Attach{Incarnation(1), kVersion}));
  EXPECT_EQ(Next(), attached_);
  ASSERT_EQ(send(worker.get(), &length, sizeof length, 0), sizeof length);
  ASSERT_EQ(send(worker.get(), std::string(length, 'x').data(), length, 0), length);
  EXPECT_THAT(Next(), testing::Not(HasSubstr("is announced")));
}

TEST_F(LocalServerTest, WhoDoesNotAttachInTimeIsLetGo) {
  Serve(1);
  const UniqueFd fd = Connect();
  EXPECT_EQ(Next(), "");
  EXPECT_TRUE(Closes(fd.get()));
}

TEST_F(LocalServerTest, OfTooManyThatHaveNotAttachedTheEldestMakesRoom) {
  Serve(kNeverMs);
  const UniqueFd worker = Connect();
  Say(worker.get(), LocalUp(Attach{Incarnation(1), kVersion}));
  EXPECT_EQ(Next(), attached_);
  std::vector<UniqueFd> idle;
  for (size_t i = 0; i < LocalServer::kUnattachedMax + 2; ++i) idle.push_back(Connect());
  for (size_t i : {0, 1}) {
    EXPECT_EQ(Next(), "");
    EXPECT_TRUE(Closes(idle[i].get()));
  }
  for (size_t i = 2; i < idle.size(); ++i) EXPECT_TRUE(Open(idle[i].get()));
  EXPECT_TRUE(Open(worker.get()));
}

}  // namespace
}  // namespace farandole::agent::local
