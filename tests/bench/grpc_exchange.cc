// A bare gRPC exchange of the shape of one negotiation: CLIENTS processes with a bidirectional stream each; in every
// round each client writes 64 bytes, and when the last has written the server answers all. No state, no checks, no
// agent: the floor below which no coordination over gRPC can come.
//
//   grpc_exchange CLIENTS
//
// Reads lines from stdin, each a number of rounds. For each prints the median time in microseconds that the first
// client saw from write to answer. Ends at end of input.
#include <fcntl.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

constexpr int kMessageBytes = 64;

grpc::ByteBuffer Message() {
  grpc::Slice slice(std::string(kMessageBytes, 'x'));
  return grpc::ByteBuffer(&slice, 1);
}

// Counts what has come in this round and answers all streams at the last one.
class Round {
 public:
  explicit Round(size_t clients) : clients_(clients) {}

  void Arrived(grpc::ServerGenericBidiReactor* stream, grpc::ByteBuffer* answer) {
    std::lock_guard<std::mutex> lock(mutex_);
    waiting_.emplace_back(stream, answer);
    if (waiting_.size() < clients_) return;
    for (auto& [other, buffer] : waiting_) other->StartWrite(buffer);
    waiting_.clear();
  }

 private:
  const size_t clients_;
  std::mutex mutex_;
  std::vector<std::pair<grpc::ServerGenericBidiReactor*, grpc::ByteBuffer*>> waiting_;
};

class ServerStream : public grpc::ServerGenericBidiReactor {
 public:
  explicit ServerStream(Round* round) : round_(round), answer_(Message()) { StartRead(&request_); }
  void OnReadDone(bool ok) override {
    if (!ok) return Finish(grpc::Status::OK);
    round_->Arrived(this, &answer_);
  }
  void OnWriteDone(bool ok) override {
    if (ok) StartRead(&request_);
  }
  void OnDone() override { delete this; }

 private:
  Round* const round_;
  grpc::ByteBuffer request_, answer_;
};

class Service : public grpc::CallbackGenericService {
 public:
  explicit Service(size_t clients) : round_(clients) {}
  grpc::ServerGenericBidiReactor* CreateReactor(grpc::GenericCallbackServerContext*) override {
    return new ServerStream(&round_);
  }

 private:
  Round round_;
};

// Writes its port to `port_fd` and serves until it is killed.
[[noreturn]] void Serve(int clients, int port_fd) {
  Service service(clients);
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterCallbackGenericService(&service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || write(port_fd, &port, sizeof port) != sizeof port) _exit(1);
  server->Wait();
  _exit(0);
}

class ClientStream : public grpc::ClientBidiReactor<grpc::ByteBuffer, grpc::ByteBuffer> {
 public:
  explicit ClientStream(const std::string& address) : message_(Message()) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    stub_->PrepareBidiStreamingCall(&context_, "/bench/Exchange", {}, this);
    StartCall();
  }

  // Returns when the answer is there; false if the stream broke.
  bool Exchange() {
    std::unique_lock<std::mutex> lock(mutex_);
    answered_ = written_ = false;
    StartRead(&answer_);
    StartWrite(&message_);
    // The answer may overtake the report that the message was written.
    changed_.wait(lock, [this] { return (answered_ && written_) || broken_; });
    return !broken_;
  }

  void OnReadDone(bool ok) override { Report(ok ? &answered_ : &broken_); }
  void OnWriteDone(bool ok) override { Report(ok ? &written_ : &broken_); }

 private:
  void Report(bool* fact) {
    std::lock_guard<std::mutex> lock(mutex_);
    *fact = true;
    changed_.notify_one();
  }

  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::ClientContext context_;
  grpc::ByteBuffer message_, answer_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool answered_ = false;
  bool written_ = false;
  bool broken_ = false;
};

double MedianMicroseconds(ClientStream* stream, int rounds) {
  std::vector<double> times;
  for (int i = 0; i < rounds; ++i) {
    const auto start = std::chrono::steady_clock::now();
    if (!stream->Exchange()) _exit(1);
    times.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
  return times[rounds / 2];
}

// Every client but the first: rounds come as binary integers over a pipe.
[[noreturn]] void Follow(const std::string& address, int rounds_fd) {
  ClientStream stream(address);
  int rounds;
  while (read(rounds_fd, &rounds, sizeof rounds) == sizeof rounds) MedianMicroseconds(&stream, rounds);
  _exit(0);
}

// Forks before gRPC is touched; the child dies with its parent.
template <typename Function>
void Child(Function function) {
  const pid_t parent = getpid();
  if (fork() != 0) return;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  function();
}

}  // namespace

int main(int argc, char** argv) {
  const int clients = argc == 2 ? std::atoi(argv[1]) : 0;
  if (clients < 1 || clients > 1024) {
    std::fprintf(stderr, "usage: grpc_exchange CLIENTS\n");
    return 2;
  }
  int port_pipe[2];
  if (pipe2(port_pipe, O_CLOEXEC) != 0) return 1;
  Child([&] { Serve(clients, port_pipe[1]); });
  int port = 0;
  if (read(port_pipe[0], &port, sizeof port) != sizeof port) return 1;
  const std::string address = "127.0.0.1:" + std::to_string(port);
  std::vector<int> followers;
  for (int i = 1; i < clients; ++i) {
    int rounds_pipe[2];
    if (pipe2(rounds_pipe, O_CLOEXEC) != 0) return 1;
    Child([&] {
      close(rounds_pipe[1]);
      for (int fd : followers) close(fd);
      Follow(address, rounds_pipe[0]);
    });
    close(rounds_pipe[0]);
    followers.push_back(rounds_pipe[1]);
  }
  ClientStream stream(address);
  int rounds;
  while (std::scanf("%d", &rounds) == 1 && rounds > 0) {
    for (int fd : followers) {
      if (write(fd, &rounds, sizeof rounds) != sizeof rounds) return 1;
    }
    std::printf("%.3f\n", MedianMicroseconds(&stream, rounds));
    std::fflush(stdout);
  }
  // Streams are open for ever; the children die with this process.
  std::fflush(stdout);
  _exit(0);
}
