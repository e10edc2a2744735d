// Several ranks through the C ABI, agent and controller: real processes, real sockets, real shared memory.
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "base/auth.h"
#include "base/unique_fd.h"
#include "gtest/gtest.h"

namespace farandole::multiprocess {
namespace {

constexpr char kKey[] = "0123456789abcdef";

std::string Program(const std::string& path) {
  const char* root = std::getenv("TEST_SRCDIR");
  return (root == nullptr ? "" : std::string(root) + "/farandole/") + path;
}

struct Pipe {
  Pipe() {
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0) std::abort();
    read.Reset(fds[0]);
    write.Reset(fds[1]);
  }
  UniqueFd read, write;
};

// Starts a program that inherits `fds` under their numbers, and `out` as its stdout.
pid_t Start(const std::vector<std::string>& command, const std::vector<int>& fds, int out = STDOUT_FILENO) {
  const pid_t child = fork();
  if (child != 0) return child;
  dup2(out, STDOUT_FILENO);
  for (int fd : fds) fcntl(fd, F_SETFD, 0);
  std::vector<char*> argv;
  for (const std::string& word : command) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

void WriteAndClose(Pipe* pipe, const std::string& text) {
  EXPECT_EQ(write(pipe->write.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  pipe->write.Reset();
}

// A job of so many ranks that run `command`; `meanwhile` is given the controller's address. The code with which the
// agent ends.
int RunJob(int ranks, const std::vector<std::string>& command,
           const std::function<void(const std::string&)>& meanwhile = nullptr) {
  Pipe key, ready, token;
  const pid_t controller = Start({Program("controller/farandole-controller"), "--key-fd",
                                  std::to_string(key.read.get()), "--ready-fd", std::to_string(ready.write.get())},
                                 {key.read.get(), ready.write.get()});
  WriteAndClose(&key, kKey);
  ready.write.Reset();
  char line[128];
  const ssize_t n = read(ready.read.get(), line, sizeof line);
  EXPECT_GT(n, 1) << "no controller";
  if (n <= 1) return -1;
  const std::string address(line, n - 1);

  std::vector<std::string> agent_command = {Program("agent/farandole-agent"),
                                            "--job",
                                            "test",
                                            "--controller",
                                            address,
                                            "--token-fd",
                                            std::to_string(token.read.get()),
                                            "--size",
                                            std::to_string(ranks),
                                            "--"};
  agent_command.insert(agent_command.end(), command.begin(), command.end());
  const pid_t agent = Start(agent_command, {token.read.get()});
  WriteAndClose(&token, MakeToken(kKey, "test", "member"));
  if (meanwhile != nullptr) meanwhile(address);
  int status = 0;
  EXPECT_EQ(waitpid(agent, &status, 0), agent);
  EXPECT_TRUE(WIFEXITED(status));
  const int code = WEXITSTATUS(status);
  kill(controller, SIGTERM);
  EXPECT_EQ(waitpid(controller, &status, 0), controller);
  EXPECT_TRUE(WIFEXITED(status));
  return code;
}

// Statuses of the job, until `seen` or there are no more.
void Query(const std::string& address, const std::vector<std::string>& options,
           const std::function<bool(const char* status)>& seen) {
  Pipe token, out;
  std::vector<std::string> command = {Program("controller/farandole-controller"),
                                      "query",
                                      "--job",
                                      "test",
                                      "--controller",
                                      address,
                                      "--token-fd",
                                      std::to_string(token.read.get())};
  command.insert(command.end(), options.begin(), options.end());
  const pid_t query = Start(command, {token.read.get()}, out.write.get());
  WriteAndClose(&token, MakeToken(kKey, "test", "observer"));
  out.write.Reset();
  std::FILE* const lines = fdopen(out.read.Release(), "r");
  char* line = nullptr;
  size_t room = 0;
  while (getline(&line, &room, lines) > 0 && !seen(line)) {
  }
  std::free(line);
  std::fclose(lines);
  kill(query, SIGTERM);
  EXPECT_EQ(waitpid(query, nullptr, 0), query);
}

// Whether a status of the job, which replays its steps and so says nothing about them, has so many ranks that tell how
// long their GPUs were at work; false when the job is over.
bool TellsOfGpus(const std::string& address, int ranks) {
  bool told = false;
  Query(address, {"--watch", "10"}, [&](const char* status) {
    const char* const field = "\"deviceTime\":{\"batches\":\"";
    int found = 0;
    for (const char* at = status; (at = std::strstr(at, field)) != nullptr; ++at) ++found;
    told = found == ranks && std::strstr(status, "\"activity\":\"ACTIVITY_REPLAYING\"") != nullptr;
    return told;
  });
  return told;
}

uint32_t PhaseOf(const std::string& address) {
  unsigned phase = 0;
  Query(address, {}, [&](const char* status) {
    const char* const field = std::strstr(status, "\"phase\":");
    return field != nullptr && std::sscanf(field, "\"phase\":%u", &phase) == 1;
  });
  return phase;
}

// A pipe by its name, at which nobody waits for the other end.
UniqueFd MakeNamedPipe(const std::string& file, int flags = O_RDWR) {
  unlink(file.c_str());
  EXPECT_EQ(mkfifo(file.c_str(), 0600), 0);
  return UniqueFd(open(file.c_str(), flags | O_CLOEXEC));
}

class CApiRanksTest : public testing::TestWithParam<int> {};

TEST_P(CApiRanksTest, EveryAnswerIsRight) {
  EXPECT_EQ(RunJob(GetParam(), {Program("tests/multiprocess/c_api_ranks")}), 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, CApiRanksTest, testing::Values(1, 2, 4));

// With tensors on devices.
class CApiDeviceRanksTest : public testing::TestWithParam<int> {
 protected:
  static int RunAs(const std::string& mode, const std::string& file = "",
                   const std::function<void(const std::string&)>& meanwhile = nullptr) {
    return RunJob(GetParam(), {Program("tests/multiprocess/c_api_device_ranks"), mode, file}, meanwhile);
  }
};

TEST_P(CApiDeviceRanksTest, EachRankHasAGpu) { EXPECT_EQ(RunAs("own"), 0); }
TEST_P(CApiDeviceRanksTest, AllRanksShareAGpu) { EXPECT_EQ(RunAs("shared"), 0); }
TEST_P(CApiDeviceRanksTest, TheHostIsAheadByAStep) { EXPECT_EQ(RunAs("ahead"), 0); }
TEST_P(CApiDeviceRanksTest, ProcessSetsUseOneDevice) { EXPECT_EQ(RunAs("sets"), 0); }
TEST_P(CApiDeviceRanksTest, NcclIsNotToBeUsed) { EXPECT_EQ(RunAs("staged"), 0); }
TEST_P(CApiDeviceRanksTest, ThereIsNoNccl) { EXPECT_EQ(RunAs("without"), 0); }

TEST_P(CApiDeviceRanksTest, TheStatusTellsWhatGpusDid) {
  const std::string file = testing::TempDir() + "/held" + std::to_string(GetParam());
  const UniqueFd go = MakeNamedPipe(file), ready = MakeNamedPipe(file + ".ready");
  const auto look = [&](const std::string& address) {
    pollfd one{ready.get(), POLLIN, 0};
    EXPECT_EQ(poll(&one, 1, 60000), 1) << "rank 0 has not come that far";
    EXPECT_TRUE(TellsOfGpus(address, GetParam()));
    EXPECT_EQ(write(go.get(), "x", 1), 1);
  };
  EXPECT_EQ(RunAs("held", file, look), 0);
}

TEST_P(CApiDeviceRanksTest, AKilledRankIsNamed) {
  if (GetParam() == 1) return;
  const std::string file = testing::TempDir() + "/told" + std::to_string(GetParam());
  for (const char* when : {"before", "meeting", "inside", "replayed", "staged"}) {
    SCOPED_TRACE(when);
    unlink(file.c_str());
    EXPECT_NE(RunAs(std::string("killed-") + when, file), 0) << "one of its ranks was killed";
    EXPECT_EQ(access(file.c_str(), F_OK), 0) << "the others have not heard of it";
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, CApiDeviceRanksTest, testing::Values(1, 2, 4));

// The ranks meet here (meetings_testing.h).
class HaltedReplayTest : public CApiDeviceRanksTest {
 protected:
  static int RunAndMeet(const std::string& mode) {
    const std::string file = testing::TempDir() + "/" + mode + std::to_string(GetParam());
    const UniqueFd asks = MakeNamedPipe(file + ".asks", O_RDONLY | O_NONBLOCK);
    std::vector<UniqueFd> answers;
    for (int rank = 0; rank < GetParam(); ++rank) answers.push_back(MakeNamedPipe(file + "." + std::to_string(rank)));
    return RunAs(mode, file, [&](const std::string& address) {
      while (HaveAsked(asks.get())) {
        const uint32_t phase = PhaseOf(address);
        for (const UniqueFd& answer : answers) EXPECT_EQ(write(answer.get(), &phase, sizeof phase), sizeof phase);
      }
    });
  }

 private:
  // False: they have ended.
  static bool HaveAsked(int asks) {
    for (int rank = 0; rank < GetParam(); ++rank) {
      pollfd one{asks, POLLIN, 0};
      char asked;
      if (poll(&one, 1, 60000) != 1 || read(asks, &asked, 1) != 1) return false;
    }
    return true;
  }
};

TEST_P(HaltedReplayTest, WhatDevicesHaveIsNotWithdrawn) { EXPECT_EQ(RunAndMeet("halts"), 0); }
TEST_P(HaltedReplayTest, NorWhatIsStaged) { EXPECT_EQ(RunAndMeet("halts-staged"), 0); }

INSTANTIATE_TEST_SUITE_P(Ranks, HaltedReplayTest, testing::Values(2, 3));

}  // namespace
}  // namespace farandole::multiprocess
