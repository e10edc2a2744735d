// What the runtime does while it holds a lock, and what it must not.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "base/scarcity_testing.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/os/event_count.h"
#include "worker/runtime.h"
#include "worker/runtime_testing.h"

namespace farandole::worker {
namespace {

using testing::HasSubstr;

// Operations that act when they are answered: they ask for every lock that a Submit, a query or the control loop needs,
// and submit the next operation. If the thread that answers held one of them, it would wait for itself.
class RuntimeAnswersTest : public RuntimeTest {
 protected:
  ~RuntimeAnswersTest() override { runtime_.reset(); }

  // The runtime holds the only reference; it drops that behind Finish, in the same thread.
  completion::Result SubmitThen(const std::string& name, const std::function<void(const completion::Result&)>& then) {
    auto act = [this, then](session::Operation* operation) {
      EXPECT_FALSE(submitting) << "answered inside the call that submits";
      EXPECT_TRUE(operation->done()) << operation->request.name;
      runtime_->membership().view();
      link_->loop_->RunHere([] {});
      then(operation->result());
      delete operation;
      answers_.Advance();
    };
    std::shared_ptr<session::Operation> operation(new session::Operation(MakeRequest(name), &value_, &value_), act);
    submitting = true;
    const completion::Result result = runtime_->Submit(std::move(operation));
    submitting = false;
    return result;
  }
  // When it ends, the next one must be refused, as all that comes after the end.
  void SubmitToEnd(const std::string& name, completion::Code code) {
    EXPECT_TRUE(SubmitThen(name, [this, code](const completion::Result& result) {
                  EXPECT_EQ(result.code, code) << result.text;
                  auto late = std::make_shared<session::Operation>(MakeRequest("late"), &value_, &value_);
                  EXPECT_EQ(runtime_->Submit(late).code, code);
                  EXPECT_FALSE(late->done());
                }).ok());
  }
  void AwaitAnswers(uint32_t count) {
    for (uint32_t seen = answers_.Value(); seen < count; seen = answers_.Value()) {
      ASSERT_TRUE(answers_.WaitPast(seen, kLong));
    }
  }
  void AwaitRunning() {
    while (control_.entered.Value() == 0) control_.entered.WaitPast(0, kLong);
  }

  static thread_local bool submitting;
  os::EventCount answers_;
};

thread_local bool RuntimeAnswersTest::submitting = false;

TEST_F(RuntimeAnswersTest, Done) {
  Join();
  EXPECT_TRUE(SubmitThen("a", [this](const completion::Result& a) {
                EXPECT_TRUE(a.ok()) << a.text;
                EXPECT_TRUE(SubmitThen("b", [](const completion::Result& b) { EXPECT_TRUE(b.ok()) << b.text; }).ok());
              }).ok());
  EXPECT_EQ(link_->Hear<Announce>().requests[0].name, "a");
  Dispatch(1, "a");
  AwaitAnswers(1);
  runtime_->Flush();
  EXPECT_EQ(link_->Hear<Announce>().requests[0].name, "b");
  Dispatch(2, "b");
  AwaitAnswers(2);
}

TEST_F(RuntimeAnswersTest, RemovedWhileRunningQueuedAndOpen) {
  Join();
  control_.hang = true;
  for (const char* name : {"running", "queued", "open"}) SubmitToEnd(name, completion::Code::kPeerLost);
  runtime_->Flush();
  Dispatch(1, "running");
  Dispatch(2, "queued");
  AwaitRunning();
  link_->Say(Removed{kGeneration, RemovedKind::kPeerLost, "rank 1 was killed"});
  AwaitAnswers(3);
}

TEST_F(RuntimeAnswersTest, WithdrawnAndRemovedMeanwhile) {
  Join();
  control_.hang = true;
  SubmitToEnd("a", completion::Code::kPeerLost);
  BeginReplay(1, {{"a"}});
  AwaitRunning();
  link_->Say(Halt{kGeneration, 1});
  link_->Say(Item{kGeneration, 1, 2, Resume{1, {{0, {Rank(0)}}}}});
  link_->Say(Item{kGeneration, 2, 3, Withdraw{1, 0, {0}, "nobody comes"}});
  link_->Say(Removed{kGeneration, RemovedKind::kPeerLost, "rank 1 was killed"});
  AwaitAnswers(1);
  EXPECT_TRUE(control_.withdrawn);
}

TEST_F(RuntimeAnswersTest, BrokenUntilTheVerdict) {
  Join();
  control_.status = absl::UnavailableError("connection reset");
  SubmitToEnd("failed", completion::Code::kPeerLost);
  runtime_->Flush();
  Dispatch(1, "failed");
  link_->Hear<Announce>();
  link_->Hear<Failed>();
  SubmitToEnd("open", completion::Code::kPeerLost);
  EXPECT_EQ(answers_.Value(), 0u);
  link_->Say(Removed{kGeneration, RemovedKind::kPeerLost, "rank 1 was killed"});
  AwaitAnswers(2);
}

TEST_F(RuntimeAnswersTest, BrokenWhileLeaving) {
  Join();
  control_.status = absl::UnavailableError("connection reset");
  SubmitToEnd("failed", completion::Code::kShutDown);
  SubmitToEnd("open", completion::Code::kShutDown);
  runtime_->BeginLeave();
  Dispatch(1, "failed");
  AwaitAnswers(2);
}

TEST_F(RuntimeAnswersTest, LeaveDone) {
  Join();
  SubmitToEnd("open", completion::Code::kShutDown);
  runtime_->BeginLeave();
  link_->Say(Item{kGeneration, 0, 1, LeaveDone{}});
  AwaitAnswers(1);
}

TEST_F(RuntimeAnswersTest, Shutdown) {
  Join();
  control_.hang = true;
  SubmitToEnd("running", completion::Code::kShutDown);
  SubmitToEnd("open", completion::Code::kShutDown);
  runtime_->Flush();
  Dispatch(1, "running");
  AwaitRunning();
  runtime_->Stop();
  EXPECT_EQ(answers_.Value(), 2u);
}

using RuntimeLocksTest = RuntimeTest;

TEST_F(RuntimeLocksTest, AStderrThatNobodyReadsHoldsUpTheWriterAlone) {
  Join();
  int pipe_fds[2];
  ASSERT_EQ(pipe2(pipe_fds, O_CLOEXEC | O_NONBLOCK), 0);
  const std::string block(4096, 'x');
  while (write(pipe_fds[1], block.data(), block.size()) > 0) {
  }
  // Blocking from here on.
  ASSERT_EQ(fcntl(pipe_fds[1], F_SETFL, 0), 0);
  const int old_stderr = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 0);
  ASSERT_EQ(dup2(pipe_fds[1], STDERR_FILENO), STDERR_FILENO);
  os::EventCount said;
  std::thread says([&] { link_->SayHere(Notice{kGeneration, "rank 1 is late"}, [&] { said.Advance(); }); });
  EXPECT_TRUE(said.WaitPast(0, kLong)) << "written inside the step";
  if (said.Value() > 0) {
    Submit("a");
    EXPECT_EQ(link_->Hear<Announce>().requests[0].name, "a");
    link_->loop_->RunHere([] {});
  }
  dup2(old_stderr, STDERR_FILENO);
  close(old_stderr);
  // Ends the write.
  char drained[4096];
  while (read(pipe_fds[0], drained, sizeof drained) > 0) {
  }
  says.join();
  close(pipe_fds[0]);
  close(pipe_fds[1]);
}

// Opening a FIFO takes as long as it takes until somebody reads it.
TEST_F(RuntimeLocksTest, ATimelineThatIsSlowToOpenHoldsUpItsCallerAlone) {
  const std::string path = testing::TempDir() + "/farandole-timeline-fifo." + std::to_string(getpid());
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  Config config;
  config.timeline = path;
  config.start_timeout_ms = kLong;
  Make(config, {kLong, kLong});
  BecomeMember();
  std::thread init([&] { EXPECT_TRUE(runtime_->WaitReady(kLong).ok()); });
  os::EventCount asked;
  std::thread asks([&] {
    while (runtime_->membership().view().members.empty()) sched_yield();
    link_->Report();
    link_->loop_->RunHere([] {});
    asked.Advance();
  });
  EXPECT_TRUE(asked.WaitPast(0, kLong)) << "opened inside the step";
  const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  init.join();
  asks.join();
  runtime_->Stop();
  close(reader);
  unlink(path.c_str());
}

TEST_F(RuntimeLocksTest, SaysWhatItCannotStart) {
  const auto no_link = [](EventLoop* loop, Incarnation worker) { return std::make_unique<FakeLink>(loop, worker); };
  const auto none = [](const collective::Group&, collective::Bootstrap*) { return absl::InternalError("not asked"); };
  Config config;
  config.agent_socket = "fake";
  {
    Runtime runtime(config, no_link, none);
    NoThreads no_threads;
    const absl::Status started = runtime.Start();
    EXPECT_EQ(started.code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(started.message()), HasSubstr("farandole-ctl"));
    runtime.Stop();
  }
  NoDescriptors no_descriptors;
  Runtime runtime(config, no_link, none);
  const absl::Status started = runtime.Start();
  EXPECT_EQ(started.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(started.message()), HasSubstr("Too many open files"));
}

}  // namespace
}  // namespace farandole::worker
