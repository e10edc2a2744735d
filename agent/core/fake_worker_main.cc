// A worker for tests: does what its arguments say, one after the other, and prints what it sees. Exits with 99 when
// something that it waits for does not come.
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/unix_socket.h"
#include "proto/codec/codec.h"
#include "proto/codec/frame.h"
#include "proto/version.h"

namespace farandole::agent::core {
namespace {

constexpr int64_t kPatienceMs = 30000;
constexpr int kHeartbeatMs = 100;

int NumberOf(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

class FakeWorker {
 public:
  int Run(const std::vector<std::string>& arguments) {
    std::deque<std::string> rest(arguments.begin(), arguments.end());
    while (!rest.empty()) {
      const std::string verb = Take(&rest);
      auto it = verbs_.find(verb);
      if (it == verbs_.end()) Fail("unknown verb " + verb);
      it->second(&rest);
    }
    return 0;
  }

 private:
  using Rest = std::deque<std::string>;

  [[noreturn]] static void Fail(const std::string& text) {
    Line("FAILED: " + text);
    _exit(99);
  }
  static void Line(const std::string& text) { Raw(text + "\n"); }
  static void Raw(const std::string& text) { (void)!write(STDOUT_FILENO, text.data(), text.size()); }
  static std::string Take(Rest* rest) {
    if (rest->empty()) Fail("an argument is missing");
    std::string first = rest->front();
    rest->pop_front();
    return first;
  }

  void Connect() {
    absl::StatusOr<UniqueFd> fd = ConnectUnix(std::getenv("FARANDOLE_AGENT_SOCKET"));
    if (!fd.ok()) Fail(fd.status().ToString());
    socket_ = std::make_unique<FrameSocket>(std::move(*fd));
  }
  void Attach(uint64_t incarnation) {
    Connect();
    incarnation_ = Incarnation(incarnation);
    Send(LocalUp(farandole::Attach{incarnation_, kVersion}));
  }
  void Send(const LocalUp& message) { (void)socket_->Send(Encode(message)).ok(); }
  void SayHello(int64_t pid) {
    Hello hello;
    hello.session = ++session_;
    hello.worker_incarnation = incarnation_;
    hello.pid = pid;
    hello.version = kVersion;
    hello.rank = Rank(NumberOf("FARANDOLE_RANK"));
    hello.size = NumberOf("FARANDOLE_SIZE");
    Send(LocalUp(WorkerUp(hello)));
  }

  // The next message; an empty one if none comes within `wait_ms`.
  LocalDown Next(int wait_ms) {
    if (inbox_.empty()) {
      pollfd ready{socket_->fd(), POLLIN, 0};
      if (poll(&ready, 1, wait_ms) == 1) {
        std::vector<Frame> frames;
        const absl::Status status = socket_->Receive(&frames);
        for (Frame& frame : frames) {
          if (frame.fd.valid()) segment_ = std::move(frame.fd);
          absl::StatusOr<LocalDown> message = DecodeLocalDown(frame.bytes);
          if (!message.ok()) Fail(message.status().ToString());
          inbox_.push_back(*message);
        }
        if (!status.ok()) closed_ = true;
      }
    }
    if (inbox_.empty()) return LocalDown();
    LocalDown message = inbox_.front();
    inbox_.pop_front();
    return message;
  }

  static std::string Describe(const LocalDown& message) {
    if (std::holds_alternative<Attached>(message)) return "attached";
    if (const auto* refused = std::get_if<Refused>(&message)) return "refused " + refused->reason;
    if (const auto* link = std::get_if<LinkState>(&message)) {
      return (link->connected ? "link-up" : link->permanent ? "link-permanent " : "link-down ") + link->text;
    }
    if (const auto* reply = std::get_if<SegmentReply>(&message)) return "segment " + reply->error;
    if (const auto* reply = std::get_if<KeyReply>(&message)) {
      return "key " + std::to_string(reply->code) + " " + reply->value;
    }
    const auto* down = std::get_if<WorkerDown>(&message);
    if (down == nullptr) return "";
    if (std::holds_alternative<Welcome>(*down)) return "welcome";
    if (const auto* removed = std::get_if<Removed>(down)) return "removed " + removed->reason;
    const auto* item = std::get_if<Item>(down);
    return item != nullptr && std::holds_alternative<LeaveDone>(item->body) ? "leave-done" : "other";
  }

  void Expect(const std::string& what) {
    const TimePoint deadline = Clock::Monotonic().Now().PlusMs(kPatienceMs);
    while (Clock::Monotonic().Now() < deadline) {
      const std::string got = Describe(Next(kHeartbeatMs));
      if (got.rfind(what, 0) == 0) return Line(got);
      if (closed_ && inbox_.empty()) break;
      Send(LocalUp(Heartbeat{}));
    }
    Fail("no " + what);
  }
  void ExpectClosed() {
    const TimePoint deadline = Clock::Monotonic().Now().PlusMs(kPatienceMs);
    while (!closed_ && Clock::Monotonic().Now() < deadline) Next(kHeartbeatMs);
    if (!closed_) Fail("the connection stays open");
    Line("closed");
  }

  void Segment(const std::string& key, uint64_t bytes) {
    Send(LocalUp(SegmentRequest{1, GenerationId{1, 1}, key, bytes}));
    Expect("segment");
    if (!segment_.valid()) return;
    const int seals = fcntl(segment_.get(), F_GET_SEALS);
    Line(seals == (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) ? "sealed" : "not sealed");
    void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, segment_.get(), 0);
    if (memory == MAP_FAILED) Fail("mmap");
    memory_ = static_cast<volatile unsigned char*>(memory);
  }
  void Peek(int value) {
    const TimePoint deadline = Clock::Monotonic().Now().PlusMs(kPatienceMs);
    while (memory_[0] != value) {
      if (deadline < Clock::Monotonic().Now()) Fail("the other never wrote");
      poll(nullptr, 0, 1);
    }
    Line("seen");
  }

  // As the control thread of a worker: heartbeats, and Hello after every change to connected.
  void Serve() {
    while (!closed_) {
      const std::string got = Describe(Next(kHeartbeatMs));
      if (!got.empty()) Line(got);
      if (got == "link-up") SayHello(getpid());
      Send(LocalUp(Heartbeat{}));
    }
    Line("closed");
  }

  const std::map<std::string, std::function<void(Rest*)>> verbs_ = {
      {"attach", [this](Rest*) { Attach(getpid()); }},
      {"attach-as", [this](Rest* rest) { Attach(std::stoull(Take(rest))); }},
      {"connect", [this](Rest*) { Connect(); }},
      {"disconnect", [this](Rest*) { socket_.reset(); }},
      {"die", [](Rest* rest) { raise(std::stoi(Take(rest))); }},
      {"env",
       [](Rest* rest) {
         const char* text = std::getenv(Take(rest).c_str());
         Line(text ? text : "(unset)");
       }},
      {"exit", [](Rest* rest) { _exit(std::stoi(Take(rest))); }},
      {"expect", [this](Rest* rest) { Expect(Take(rest)); }},
      {"expect-closed", [this](Rest*) { ExpectClosed(); }},
      {"get",
       [this](Rest* rest) {
         Send(LocalUp(LocalGet{2, GenerationId{1, 1}, Take(rest), 20000}));
       }},
      {"hello", [this](Rest*) { SayHello(getpid()); }},
      {"hello-pid", [this](Rest* rest) { SayHello(std::stoll(Take(rest))); }},
      {"ignore", [](Rest* rest) { signal(std::stoi(Take(rest)), SIG_IGN); }},
      {"leave",
       [this](Rest*) {
         Send(LocalUp(WorkerUp(Leave{GenerationId{1, 1}})));
       }},
      {"pause",
       [](Rest*) {
         for (;;) pause();
       }},
      {"peek", [this](Rest* rest) { Peek(std::stoi(Take(rest))); }},
      {"poke", [this](Rest* rest) { memory_[0] = static_cast<unsigned char>(std::stoi(Take(rest))); }},
      {"put",
       [this](Rest* rest) {
         const std::string key = Take(rest);
         Send(LocalUp(LocalPut{3, GenerationId{1, 1}, key, Take(rest)}));
       }},
      {"report",
       [this](Rest* rest) {
         WorkerReport report;
         report.generation = GenerationId{1, 1};
         report.oldest_open = Take(rest);
         Send(LocalUp(Heartbeat{report}));
       }},
      {"say", [](Rest* rest) { Raw(Take(rest)); }},
      {"segment",
       [this](Rest* rest) {
         const std::string key = Take(rest);
         Segment(key, std::stoull(Take(rest)));
       }},
      {"serve", [this](Rest*) { Serve(); }},
      {"spawn",
       [](Rest*) {
         const pid_t pid = fork();
         if (pid == 0)
           for (;;) pause();
         Line("spawned " + std::to_string(pid));
       }},
  };
  std::unique_ptr<FrameSocket> socket_;
  std::deque<LocalDown> inbox_;
  bool closed_ = false;
  Incarnation incarnation_;
  uint64_t session_ = 0;
  UniqueFd segment_;
  volatile unsigned char* memory_ = nullptr;
};

}  // namespace
}  // namespace farandole::agent::core

int main(int argc, char** argv) {
  return farandole::agent::core::FakeWorker().Run(std::vector<std::string>(argv + 1, argv + argc));
}
