// farandole-controller as a process: how it is told things, how it says that it is ready, how it ends.

#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "base/auth.h"
#include "base/unique_fd.h"
#include "controller/rpc/fake_agent.h"
#include "gtest/gtest.h"

namespace farandole::controller {
namespace {

const char kBinary[] = "controller/farandole-controller";
const char kTestData[] = "controller/testdata";

struct Pipe {
  Pipe() {
    int fds[2];
    EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
    read.Reset(fds[0]);
    write.Reset(fds[1]);
  }
  UniqueFd read, write;
};

constexpr char kSecret[] = "the secret of a test";

// A controller with its key on descriptor 3, its readiness on 4, its lifeline on 5. Killed at the end, if need be.
class Controller {
 public:
  explicit Controller(const std::vector<std::string>& extra = {}) {
    Pipe key, ready, lifeline;
    EXPECT_EQ(write(key.write.get(), kSecret, sizeof kSecret - 1), sizeof kSecret - 1);
    key.write.Reset();
    std::vector<std::string> args = {kBinary, "--key-fd", "3", "--ready-fd", "4", "--lifeline-fd", "5"};
    args.insert(args.end(), extra.begin(), extra.end());
    Spawn(args, {{key.read.get(), 3}, {ready.write.get(), 4}, {lifeline.read.get(), 5}});
    ready.write.Reset();
    ReadAddress(ready.read.get());
    lifeline_ = std::move(lifeline.write);
  }
  // With its keys in a file, and what it says to be read by WaitForLog.
  static std::unique_ptr<Controller> WithKeyFile(const std::string& path) {
    std::unique_ptr<Controller> c(new Controller(NotYet()));
    Pipe ready, log;
    c->Spawn({kBinary, "--key-file", path, "--ready-fd", "4"}, {{ready.write.get(), 4}, {log.write.get(), 2}});
    ready.write.Reset();
    c->ReadAddress(ready.read.get());
    c->log_ = std::move(log.read);
    return c;
  }
  // With arguments alone.
  static int ExitCode(std::vector<std::string> args) {
    Controller c{NotYet()};
    args.insert(args.begin(), kBinary);
    c.Spawn(args, {});
    return c.Wait();
  }
  ~Controller() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    Wait();
  }

  const std::string& address() const { return address_; }
  void Signal(int signal) { kill(pid_, signal); }
  void CutLifeline() { lifeline_.Reset(); }
  // Reads on until a line has this; false if none will come any more.
  bool WaitForLog(const std::string& words) {
    std::string line;
    char c;
    while (read(log_.get(), &c, 1) == 1) {
      line += c;
      if (c == '\n' && line.find(words) != std::string::npos) return true;
      if (c == '\n') line.clear();
    }
    return false;
  }
  // Exit code, or 128 + signal. The test's own time limit bounds it.
  int Wait() {
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    pid_ = 0;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  std::unique_ptr<rpc::FakeAgent> Agent(const std::shared_ptr<grpc::ChannelCredentials>& credentials,
                                        const std::string& token = "") {
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    const std::string shown = MakeToken(kSecret, "j", "member");
    rpc::OpenDoor(address_, "j", shown, &args);
    return std::make_unique<rpc::FakeAgent>(grpc::CreateCustomChannel(address_, credentials, args), "j",
                                            token.empty() ? shown : token);
  }
  // Whether an agent with this token is welcome, which it shows everywhere.
  bool Welcomes(const std::string& token) {
    grpc::ChannelArguments args;
    args.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    args.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    rpc::OpenDoor(address_, "j", token, &args);
    const auto channel = grpc::CreateCustomChannel(address_, grpc::InsecureChannelCredentials(), args);
    return rpc::FakeAgent(channel, "j", token).Connect("b", "h2");
  }

 private:
  struct NotYet {};
  explicit Controller(NotYet) {}

  void ReadAddress(int fd) {
    char c;
    while (read(fd, &c, 1) == 1) address_ += c;
    if (!address_.empty() && address_.back() == '\n') address_.pop_back();
  }
  void Spawn(const std::vector<std::string>& args, const std::vector<std::pair<int, int>>& descriptors) {
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // Out of the way first: a source may bear the number of a target.
    for (const auto& d : descriptors) posix_spawn_file_actions_adddup2(&actions, d.first, d.second + 100);
    for (const auto& d : descriptors) posix_spawn_file_actions_adddup2(&actions, d.second + 100, d.second);
    for (const auto& d : descriptors) posix_spawn_file_actions_addclose(&actions, d.second + 100);
    std::vector<char*> argv;
    for (const std::string& arg : args) argv.push_back(const_cast<char*>(arg.c_str()));
    argv.push_back(nullptr);
    EXPECT_EQ(posix_spawn(&pid_, kBinary, &actions, nullptr, argv.data(), nullptr), 0);
    posix_spawn_file_actions_destroy(&actions);
  }

  pid_t pid_ = 0;
  UniqueFd lifeline_, log_;
  std::string address_;
};

std::string TempFile(const std::string& name, const std::string& text, mode_t mode) {
  const std::string path = ::testing::TempDir() + "/" + name;
  std::ofstream(path) << text;
  EXPECT_EQ(chmod(path.c_str(), mode), 0);
  return path;
}

TEST(ProcessTest, ServesWhereItSaysAndEndsCleanlyOnSigterm) {
  Controller controller;
  ASSERT_EQ(controller.address().rfind("127.0.0.1:", 0), 0u) << controller.address();
  auto agent = controller.Agent(grpc::InsecureChannelCredentials());
  ASSERT_TRUE(agent->Connect("a", "h1"));
  controller.Signal(SIGTERM);
  AgentDown down;
  EXPECT_FALSE(agent->Read(&down));
  EXPECT_EQ(agent->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(controller.Wait(), 0);
}

TEST(ProcessTest, EndsOnSigusr1WithTheLastAgent) {
  Controller idle;
  idle.Signal(SIGUSR1);
  EXPECT_EQ(idle.Wait(), 0);

  Controller controller;
  auto first = controller.Agent(grpc::InsecureChannelCredentials());
  ASSERT_TRUE(first->Connect("a", "h1"));
  controller.Signal(SIGUSR1);
  auto second = controller.Agent(grpc::InsecureChannelCredentials());
  ASSERT_TRUE(second->Connect("b", "h2"));
  first->Cancel();
  EXPECT_EQ(first->Finish().error_code(), grpc::StatusCode::CANCELLED);
  ASSERT_TRUE(second->Join(1, 0, 1));
  EXPECT_EQ(second->Expect<Welcome>().session, 1u);
  ASSERT_TRUE(second->Say(WorkerEnded{Incarnation(1), 1, "ended"}));
  second->Finish();
  EXPECT_EQ(controller.Wait(), 0);
}

TEST(ProcessTest, EndsWithItsLifeline) {
  Controller controller;
  controller.CutLifeline();
  EXPECT_EQ(controller.Wait(), 0);
}

TEST(ProcessTest, SpeaksTlsWithTheFilesItIsGiven) {
  const std::string certificate = std::string(kTestData) + "/loopback_cert.pem";
  Controller controller({"--tls-cert", certificate, "--tls-key", std::string(kTestData) + "/loopback_key.pem"});
  std::ifstream file(certificate);
  grpc::SslCredentialsOptions options;
  options.pem_root_certs.assign(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
  auto agent = controller.Agent(grpc::SslCredentials(options));
  ASSERT_TRUE(agent->Connect("a", "h1"));
  auto stranger = controller.Agent(grpc::SslCredentials(options), "no token");
  EXPECT_FALSE(stranger->Connect("b", "h1"));
  EXPECT_EQ(stranger->Finish().error_code(), grpc::StatusCode::UNAUTHENTICATED);
  auto plain = controller.Agent(grpc::InsecureChannelCredentials());
  EXPECT_FALSE(plain->Connect("c", "h1"));
  EXPECT_EQ(plain->Finish().error_code(), grpc::StatusCode::UNAVAILABLE);
}

TEST(ProcessTest, KeysAreExchangedWhileItRuns) {
  const std::string old_key = kSecret, new_key = "the key from now on";
  const std::string path = TempFile("exchanged_key", old_key + "\n", 0600);
  const auto exchange = [&](const std::string& text) {
    EXPECT_EQ(rename(TempFile("next_key", text, 0600).c_str(), path.c_str()), 0);
  };
  const auto controller = Controller::WithKeyFile(path);
  const std::string old_token = MakeToken(old_key, "j", "member");
  const std::string new_token = MakeToken(new_key, "j", "member");
  auto agent = controller->Agent(grpc::InsecureChannelCredentials());
  ASSERT_TRUE(agent->Connect("a", "h1"));
  EXPECT_FALSE(controller->Welcomes(new_token));

  exchange(new_key + "\n" + old_key + "\n");
  ASSERT_TRUE(controller->WaitForLog("keys read again from " + path + ": 2 keys"));
  EXPECT_TRUE(controller->Welcomes(old_token));
  EXPECT_TRUE(controller->Welcomes(new_token));

  exchange("a\nb\nc\n");
  ASSERT_TRUE(controller->WaitForLog("keys stay as they were: " + path + " has more than 2 lines"));
  EXPECT_TRUE(controller->Welcomes(old_token));

  exchange(new_key + "\n");
  ASSERT_TRUE(controller->WaitForLog("keys read again from " + path + ": 1 key"));
  EXPECT_FALSE(controller->Welcomes(old_token));
  EXPECT_TRUE(controller->Welcomes(new_token));
  // The stream from before is there.
  ASSERT_TRUE(agent->Join(1, 0, 1));
  EXPECT_EQ(agent->Expect<Welcome>().session, 1u);
}

TEST(ProcessTest, TokensEndByTheClockOfTheWall) {
  Controller controller;
  const int64_t now_s = absl::GetCurrentTimeNanos() / 1000000000;
  EXPECT_TRUE(controller.Welcomes(MakeToken(kSecret, "j", "member", now_s + 3600)));
  EXPECT_FALSE(controller.Welcomes(MakeToken(kSecret, "j", "member", now_s - 1)));
}

TEST(ProcessTest, ATakenPortIsAnError) {
  Controller first;
  const std::string key = TempFile("key", "secret", 0600);
  EXPECT_EQ(Controller::ExitCode({"--key-file", key, "--listen", first.address()}), 1);
}

TEST(ProcessTest, WhatIsWrongWithItsArgumentsIsAUsageError) {
  const std::string key = TempFile("key", "secret", 0600);
  const std::string open_key = TempFile("open_key", "secret", 0644);
  EXPECT_EQ(Controller::ExitCode({}), 2);
  EXPECT_EQ(Controller::ExitCode({"--key-file", "/no/such/file"}), 2);
  EXPECT_EQ(Controller::ExitCode({"--key-file", open_key}), 2);
  EXPECT_EQ(Controller::ExitCode({"--key-file", TempFile("keys", "a\nb\nc", 0600)}), 2);
  EXPECT_EQ(Controller::ExitCode({"--key-file", key, "--listen", "0.0.0.0:0"}), 2);
  EXPECT_EQ(Controller::ExitCode({"--key-file", key, "--tls-cert", key, "--tls-key", key}), 2);
  EXPECT_EQ(Controller::ExitCode({"--version"}), 0);
}

}  // namespace
}  // namespace farandole::controller
