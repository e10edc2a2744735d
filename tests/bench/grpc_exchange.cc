// A bare gRPC exchange of the shape of one negotiation: CLIENTS processes with a bidirectional stream each; in every
// round each client writes 64 bytes, and when the last has written the server answers all. Completion queues with one
// thread at both ends, which is the fastest form (docs/decisions/007). No state, no checks, no agent: the floor below
// which no coordination over gRPC can come.
//
//   grpc_exchange CLIENTS
//
// Reads lines from stdin, each a number of rounds. For each prints two medians and a 99th percentile, in microseconds:
// what the first client saw from write to answer when all write at once; and in as many further rounds, in which one
// client writes after all others, from its write until the last client has its answer (median, 99th percentile). Ends
// at end of input.
#include <fcntl.h>
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/call_step.h"
#include "perf/data/rank_page.h"

namespace {

using farandole::CallStep;
using farandole::CompletionThread;
using farandole::perf::data::NowNs;
using farandole::perf::data::QuantileUs;
using farandole::perf::data::RankPage;
using farandole::perf::data::RankSlot;

constexpr int kMessageBytes = 64;

grpc::ByteBuffer Message() {
  grpc::Slice slice(std::string(kMessageBytes, 'x'));
  return grpc::ByteBuffer(&slice, 1);
}

// One client's stream at the server. All in the completion thread.
class ServerStream {
 public:
  // Answers all streams when the last of `clients` has written.
  struct Round {
    size_t clients;
    std::vector<ServerStream*> waiting;
  };

  static void Serve(grpc::AsyncGenericService* service, grpc::ServerCompletionQueue* queue, CompletionThread* thread,
                    Round* round) {
    auto* stream = new ServerStream(thread, round);  // for ever
    service->RequestCall(&stream->context_, &stream->stream_, queue, queue, stream->step_.Arm([=](bool ok) {
      if (!ok) return;
      Serve(service, queue, thread, round);
      stream->Read();
    }));
  }

 private:
  ServerStream(CompletionThread* thread, Round* round) : round_(round), stream_(&context_), step_(thread) {}

  void Read() {
    stream_.Read(&request_, step_.Arm([this](bool ok) {
      if (!ok) return;
      round_->waiting.push_back(this);
      if (round_->waiting.size() < round_->clients) return;
      const std::vector<ServerStream*> all = std::exchange(round_->waiting, {});
      for (ServerStream* stream : all) stream->Write();
    }));
  }
  void Write() {
    stream_.Write(answer_, step_.Arm([this](bool ok) {
      if (ok) Read();
    }));
  }

  Round* const round_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  CallStep step_;
  grpc::ByteBuffer request_;
  const grpc::ByteBuffer answer_ = Message();
};

// Writes its port to `port_fd` and serves until it is killed.
[[noreturn]] void Serve(int clients, int port_fd) {
  ServerStream::Round round{static_cast<size_t>(clients), {}};
  grpc::AsyncGenericService service;
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.RegisterAsyncGenericService(&service);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  grpc::ServerCompletionQueue* const calls = queue.get();
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) _exit(1);
  CompletionThread thread("bare-grpc", std::move(queue));
  ServerStream::Serve(&service, calls, &thread, &round);
  if (write(port_fd, &port, sizeof port) != sizeof port) _exit(1);
  server->Wait();
  _exit(0);
}

class ClientStream {
 public:
  explicit ClientStream(const std::string& address) : message_(Message()) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
    stub_ = std::make_unique<grpc::GenericStub>(
        grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments));
    stream_ = stub_->PrepareCall(&context_, "/bench/Exchange", &queue_);
    stream_->StartCall(&started_);
    Await(&started_);
  }

  void Submit() {
    stream_->Read(&answer_, &read_);
    stream_->Write(message_, &written_);
    Await(&written_);
  }
  // Returns when the answer is there.
  void Wait() {
    Await(&read_);
    read_ = false;
  }

 private:
  // Each step is a tag of its own, which becomes true at its end; the answer may overtake the end of the write.
  void Await(bool* step) {
    while (!*step) {
      void* tag;
      bool ok;
      if (!queue_.Next(&tag, &ok) || !ok) _exit(1);
      *static_cast<bool*>(tag) = true;
    }
    if (step == &written_) written_ = false;
  }

  std::unique_ptr<grpc::GenericStub> stub_;
  grpc::CompletionQueue queue_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> stream_;
  grpc::ByteBuffer message_, answer_;
  bool started_ = false, written_ = false, read_ = false;
};

struct Times {
  double exchange_median, last_median, last_p99;
};

// All clients, in step.
Times Measure(ClientStream* stream, RankPage* page, int rounds) {
  std::vector<int64_t> exchanges, last;
  for (int i = 0; i < rounds; ++i) {
    const int64_t begin = NowNs();
    stream->Submit();
    stream->Wait();
    exchanges.push_back(NowNs() - begin);
  }
  static int64_t round = 0;
  for (int i = 0; i < rounds; ++i) {
    last.push_back(page->LastReady(
        ++round, [&] { stream->Submit(); },
        [&] {
          stream->Wait();
          page->own().started_ns = NowNs();
        }));
  }
  return {QuantileUs(&exchanges, 0.5), QuantileUs(&last, 0.5), QuantileUs(&last, 0.99)};
}

// Every client but the first: rounds come as binary integers over a pipe.
[[noreturn]] void Follow(const std::string& address, RankPage page, int rounds_fd) {
  ClientStream stream(address);
  int rounds;
  while (read(rounds_fd, &rounds, sizeof rounds) == sizeof rounds) Measure(&stream, &page, rounds);
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
  if (clients < 1 || clients > RankPage::kRanksMax) {
    std::fprintf(stderr, "usage: grpc_exchange CLIENTS\n");
    return 2;
  }
  RankSlot* const slots = RankPage::Map(nullptr);
  int port_pipe[2];
  if (slots == nullptr || pipe2(port_pipe, O_CLOEXEC) != 0) return 1;
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
      Follow(address, RankPage(slots, i, clients), rounds_pipe[0]);
    });
    close(rounds_pipe[0]);
    followers.push_back(rounds_pipe[1]);
  }
  ClientStream stream(address);
  RankPage page(slots, 0, clients);
  int rounds;
  while (std::scanf("%d", &rounds) == 1 && rounds > 0) {
    for (int fd : followers) {
      if (write(fd, &rounds, sizeof rounds) != sizeof rounds) return 1;
    }
    const Times times = Measure(&stream, &page, rounds);
    std::printf("%.3f %.3f %.3f\n", times.exchange_median, times.last_median, times.last_p99);
    std::fflush(stdout);
  }
  // Streams are open for ever; the children die with this process.
  std::fflush(stdout);
  _exit(0);
}
