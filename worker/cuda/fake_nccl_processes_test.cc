#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "worker/cuda/fake_ranks_testing.h"

// Ranks as processes, and their death.
namespace farandole::worker::cuda {
namespace {

constexpr char kProgram[] = "worker/cuda/fake_nccl_rank";

// A process that runs fake_nccl_rank_main.cc.
class Process {
 public:
  Process() {
    int in[2];
    int out[2];
    if (pipe2(in, O_CLOEXEC) != 0 || pipe2(out, O_CLOEXEC) != 0) std::abort();
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, in[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
    std::string path = kProgram;
    char* argv[] = {path.data(), nullptr};
    if (posix_spawn(&pid_, kProgram, &actions, nullptr, argv, environ) != 0) std::abort();
    posix_spawn_file_actions_destroy(&actions);
    close(in[0]);
    close(out[1]);
    to_ = fdopen(in[1], "w");
    from_ = fdopen(out[0], "r");
  }
  // It ends by itself, without a failure, if it was not killed.
  ~Process() {
    fclose(to_);
    int status = 0;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    fclose(from_);
    EXPECT_EQ(status, killed_ ? SIGKILL : 0) << "process " << pid_;
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Say(const std::string& line) {
    fprintf(to_, "%s\n", line.c_str());
    fflush(to_);
  }
  int Hear() {
    int answer = -1;
    EXPECT_EQ(fscanf(from_, "%d", &answer), 1);
    return answer;
  }
  int Ask(const std::string& line) {
    Say(line);
    return Hear();
  }
  void Kill() {
    killed_ = true;
    kill(pid_, SIGKILL);
  }

 private:
  pid_t pid_ = -1;
  FILE* to_;
  FILE* from_;
  bool killed_ = false;
};

// The id is made by this process, which is no rank.
class FakeNcclProcessesTest : public testing::Test {
 protected:
  static std::string NewId() {
    const Fakes fakes(1);
    ncclUniqueId id;
    EXPECT_EQ(fakes.nccl().ncclGetUniqueId(&id), ncclSuccess);
    std::string digits;
    for (const char byte : id.internal) {
      char two[3];
      snprintf(two, sizeof(two), "%02x", static_cast<unsigned char>(byte));
      digits += two;
    }
    return digits;
  }

  void Start(int count) {
    for (int i = 0; i < count; ++i) processes_.push_back(std::make_unique<Process>());
  }
  void SayToAll(const std::string& line) {
    for (const auto& process : processes_) process->Say(line);
  }
  void HearFromAll(int expected) {
    for (const auto& process : processes_) EXPECT_EQ(process->Hear(), expected);
  }
  // Makes a communicator of all processes.
  void Init() {
    const std::string tail = " " + std::to_string(processes_.size()) + " " + NewId();
    for (size_t rank = 0; rank < processes_.size(); ++rank)
      processes_[rank]->Say("init " + std::to_string(rank) + tail);
    HearFromAll(ncclSuccess);
  }
  void ExpectSum() {
    const int n = static_cast<int>(processes_.size());
    for (int rank = 0; rank < n; ++rank) processes_[static_cast<size_t>(rank)]->Say("sum " + std::to_string(rank + 1));
    HearFromAll(ncclSuccess);
    SayToAll("get");
    HearFromAll(n * (n + 1) / 2);
  }
  // Ends all that waits, and none of it takes long.
  void AbortAll() {
    for (const auto& process : processes_) EXPECT_LT(process->Ask("abort"), 1000);
  }
  // One dies between two collectives; the others begin the next, and wait.
  void KillOneAndBeginTheNext(size_t victim) {
    Init();
    ExpectSum();
    processes_[victim]->Kill();
    processes_.erase(processes_.begin() + static_cast<int>(victim));
    SayToAll("sum 1");
    HearFromAll(ncclSuccess);
    SayToAll("waits");
    HearFromAll(1);
  }

  std::vector<std::unique_ptr<Process>> processes_;
};

TEST_F(FakeNcclProcessesTest, Sum) {
  Start(3);
  Init();
  ExpectSum();
  ExpectSum();
}

TEST_F(FakeNcclProcessesTest, NothingTellsOfADeathButTheWait) {
  for (const size_t victim : {0, 1, 2}) {
    SCOPED_TRACE("rank " + std::to_string(victim) + " dies");
    processes_.clear();
    Start(3);
    KillOneAndBeginTheNext(victim);
    SayToAll("state");
    HearFromAll(ncclSuccess);
    AbortAll();
    // Those that are left form another one.
    Init();
    ExpectSum();
  }
}

TEST_F(FakeNcclProcessesTest, ADeathIsARemoteErrorOverANetwork) {
  for (const size_t victim : {0, 1}) {
    SCOPED_TRACE("rank " + std::to_string(victim) + " dies");
    processes_.clear();
    Start(3);
    SayToAll("tell_death");
    HearFromAll(0);
    KillOneAndBeginTheNext(victim);
    int state = ncclSuccess;
    for (const auto& process : processes_) {
      AwaitThat([&] { return (state = process->Ask("state")) != ncclSuccess; });
      EXPECT_EQ(state, ncclRemoteError);
    }
    SayToAll("waits");
    HearFromAll(1);
    AbortAll();
  }
}

// Rank 0 while it waits for the last one; then the last one, which has said that it came.
TEST_F(FakeNcclProcessesTest, ADeathDuringTheInitIsWaitedFor) {
  for (const size_t victim : {0, 1}) {
    SCOPED_TRACE("rank " + std::to_string(victim) + " dies");
    processes_.clear();
    Start(2);
    const std::string tail = " 3 " + NewId();
    EXPECT_EQ(processes_[0]->Ask("begin 0" + tail), ncclInProgress);
    EXPECT_EQ(processes_[1]->Ask("begin 1" + tail), ncclInProgress);
    processes_[victim]->Kill();
    processes_.erase(processes_.begin() + static_cast<int>(victim));
    EXPECT_EQ(processes_[0]->Ask("state"), ncclInProgress);
    AbortAll();
  }
}

}  // namespace
}  // namespace farandole::worker::cuda
