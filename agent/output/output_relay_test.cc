#include "agent/output/output_relay.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <future>
#include <string>
#include <utility>

namespace farandole::agent::output {
namespace {

std::pair<UniqueFd, UniqueFd> NewPipe() {
  int fds[2];
  EXPECT_EQ(pipe2(fds, O_CLOEXEC), 0);
  return {UniqueFd(fds[0]), UniqueFd(fds[1])};
}

// A worker's pipe, the relay, and a terminal that the test reads; all of it on a loop of its own.
class OutputRelayTest : public testing::Test {
 protected:
  OutputRelayTest() : loop_("test") {
    auto [worker_read, worker_write] = NewPipe();
    auto [terminal_read, terminal_write] = NewPipe();
    fcntl(worker_read.get(), F_SETFL, O_NONBLOCK);
    fcntl(worker_write.get(), F_SETFL, O_NONBLOCK);
    worker_ = std::move(worker_write);
    terminal_ = std::move(terminal_read);
    screen_ = std::move(terminal_write);
    EXPECT_TRUE(loop_.Start().ok());
    OnLoop([this, pipe = worker_read.Release()] {
      sink_ =
          std::make_unique<OutputSink>(&loop_, screen_.get(), [this](const std::string& why) { complaints_ += why; });
      relay_ = std::make_unique<OutputRelay>(&loop_, UniqueFd(pipe), "> ", sink_.get());
    });
  }
  ~OutputRelayTest() override {
    OnLoop([this] {
      relay_.reset();
      sink_.reset();
    });
  }

  void OnLoop(std::function<void()> fn) {
    std::promise<void> done;
    loop_.Post([&] {
      fn();
      done.set_value();
    });
    done.get_future().get();
  }
  bool SinkIsFull() {
    bool full = false;
    OnLoop([&] { full = sink_->Full(); });
    return full;
  }
  // As much as the pipe takes now.
  size_t WorkerWrites(const std::string& text) {
    const ssize_t n = write(worker_.get(), text.data(), text.size());
    return n > 0 ? n : 0;
  }
  std::string TerminalReads(size_t count) {
    std::string text(count, '\0');
    size_t got = 0;
    while (got < count) {
      const ssize_t n = read(terminal_.get(), &text[got], count - got);
      if (n <= 0) break;
      got += n;
    }
    text.resize(got);
    return text;
  }

  EventLoop loop_;
  UniqueFd worker_, terminal_, screen_;
  std::string complaints_;  // the loop's
  std::unique_ptr<OutputSink> sink_;
  std::unique_ptr<OutputRelay> relay_;
};

TEST_F(OutputRelayTest, LinesPassAndTheLastIsFlushed) {
  ASSERT_EQ(WorkerWrites("a\nb"), 3);
  EXPECT_EQ(TerminalReads(4), "> a\n");
  OnLoop([this] { relay_->FinishFromLoop(); });
  EXPECT_EQ(TerminalReads(4), "> b\n");
}

TEST_F(OutputRelayTest, ASlowTerminalHoldsTheWorkerNotTheLoop) {
  const std::string line(1023, 'x');
  std::string expected;
  size_t written = 0;
  // Nobody reads: the worker gets rid of what terminal, sink and pipe hold, then no more. The loop answers throughout.
  while (!SinkIsFull() || WorkerWrites(line.substr(0, 1)) == 1) {
    written += WorkerWrites(line + "\n");
    ASSERT_LT(written, size_t{8} << 20);
  }
  EXPECT_GE(written, OutputSink::kHeldBytesMax);
  // The test's end of the terminal was not made non-blocking for others.
  EXPECT_EQ(fcntl(screen_.get(), F_GETFL) & O_NONBLOCK, 0);
  // Once it is read everything comes.
  TerminalReads(written);
  while (WorkerWrites("end\n") != 4) TerminalReads(1024);
  std::string tail;
  while (tail.find("end\n") == std::string::npos) tail += TerminalReads(1);
}

TEST_F(OutputRelayTest, AClosedTerminalIsSaidOnce) {
  signal(SIGPIPE, SIG_IGN);
  terminal_.Reset();
  // Far more than would be held: it is dropped.
  for (size_t written = 0; written < size_t{4} << 20;) written += WorkerWrites(std::string(1023, 'x') + "\n");
  EXPECT_FALSE(SinkIsFull());
  OnLoop([this] { EXPECT_EQ(complaints_, "Broken pipe"); });
}

TEST_F(OutputRelayTest, AFullDiskIsSaidOnce) {
  const UniqueFd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full.valid());
  OnLoop([this, &full] {
    OutputSink sink(&loop_, full.get(), [this](const std::string& why) { complaints_ += why; });
    for (int i = 0; i < 3; ++i) sink.WriteFromLoop("line\n");
    EXPECT_EQ(complaints_, "No space left on device");
    EXPECT_FALSE(sink.Full());
  });
}

TEST_F(OutputRelayTest, TheEndWaitsForASlowTerminalOnlySoLong) {
  while (!SinkIsFull()) WorkerWrites(std::string(4095, 'x') + "\n");
  OnLoop([this] { sink_->FinishFromLoop(20); });
  EXPECT_TRUE(SinkIsFull());
}

}  // namespace
}  // namespace farandole::agent::output
