// Bare gRPC streams of the shape that agents have with the controller, beside which the controller is measured: the
// same client, the same API at the server (one completion queue, one thread, messages as raw bytes), a connection for
// each stream; no tokens, no decoding, no decisions, nothing kept.
//
//   grpc_streams --streams N --steps S --messages M --up-bytes U --per-answer K --down-bytes D --step-ms T
//                [--opening O] [--tls-cert FILE --tls-key FILE]
//
// Opens N streams, O at a time, and exchanges a message on each. Then, S times: writes M messages of U bytes to each
// stream within T milliseconds; the server answers every K-th with D bytes. Prints one figure a line: seconds to open,
// resident bytes of the server with all streams open, its CPU time for each message written to it.
#include <grpcpp/generic/async_generic_service.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agent/link/controller_channel.h"
#include "agent/link/controller_stream.h"
#include "base/call_step.h"
#include "base/clock.h"
#include "base/event_loop.h"
#include "perf/control/process_sample.h"
#include "perf/control/server_process.h"

namespace farandole::bench {
namespace {

using Options = std::map<std::string, std::string>;

int Number(const Options& options, const std::string& name) {
  const auto it = options.find(name);
  return it == options.end() ? 0 : std::atoi(it->second.c_str());
}

std::string Text(const Options& options, const std::string& name) {
  const auto it = options.find(name);
  return it == options.end() ? "" : it->second;
}

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// ---- the server

struct Answers {
  int per_answer = 1;
  grpc::Slice first, further;
};

class Call final : public std::enable_shared_from_this<Call> {
 public:
  static void Serve(grpc::AsyncGenericService* service, grpc::ServerCompletionQueue* queue, CompletionThread* thread,
                    const Answers* answers) {
    auto call = std::make_shared<Call>(thread, answers);
    service->RequestCall(&call->context_, &call->stream_, queue, queue, call->open_.Arm([=](bool ok) {
      if (!ok) return;
      Serve(service, queue, thread, answers);
      call->Read();
    }));
  }

  Call(CompletionThread* thread, const Answers* answers)
      : answers_(answers), stream_(&context_), open_(thread), read_(thread), write_(thread) {}

 private:
  void Read() {
    stream_.Read(&incoming_, read_.Arm([self = shared_from_this()](bool ok) {
      if (ok) self->Answer();
    }));
  }
  void Answer() {
    if (count_ == 0 || count_ % answers_->per_answer == 0) {
      ++due_;
      Write();
    }
    ++count_;
    Read();
  }
  void Write() {
    if (writing_ || due_ == 0) return;
    --due_;
    writing_ = true;
    const grpc::ByteBuffer message(written_++ == 0 ? &answers_->first : &answers_->further, 1);
    stream_.Write(message, write_.Arm([self = shared_from_this()](bool ok) {
      self->writing_ = false;
      if (ok) self->Write();
    }));
  }

  const Answers* const answers_;
  grpc::GenericServerContext context_;
  grpc::GenericServerAsyncReaderWriter stream_;
  CallStep open_, read_, write_;
  grpc::ByteBuffer incoming_;
  int64_t count_ = 0;
  int64_t written_ = 0;
  int due_ = 0;
  bool writing_ = false;
};

[[noreturn]] void Serve(const Options& options) {
  grpc::ServerBuilder builder;
  builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  grpc::AsyncGenericService service;
  builder.RegisterAsyncGenericService(&service);
  std::shared_ptr<grpc::ServerCredentials> credentials = grpc::InsecureServerCredentials();
  if (!Text(options, "--tls-cert").empty()) {
    grpc::SslServerCredentialsOptions tls;
    tls.pem_key_cert_pairs = {{ReadFile(Text(options, "--tls-key")), ReadFile(Text(options, "--tls-cert"))}};
    credentials = grpc::SslServerCredentials(tls);
  }
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", credentials, &port);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  grpc::ServerCompletionQueue* const calls = queue.get();
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr) _exit(1);
  const std::string small(64, 'x');
  const Answers answers{Number(options, "--per-answer"), grpc::Slice(small),
                        grpc::Slice(std::string(Number(options, "--down-bytes"), 'x'))};
  CompletionThread thread("bare-grpc", std::move(queue));
  Call::Serve(&service, calls, &thread, &answers);
  const std::string line = "127.0.0.1:" + std::to_string(port) + "\n";
  const int ready = Number(options, "--ready-fd");
  if (write(ready, line.data(), line.size()) < 0) _exit(1);
  // Until the parent ends.
  char c;
  (void)!read(Number(options, "--lifeline-fd"), &c, 1);
  _exit(0);
}

// ---- the client

class Client {
 public:
  Client(const Options& options, const perf::control::ServerProcess* server)
      : server_(server),
        streams_count_(Number(options, "--streams")),
        opening_(Number(options, "--opening")),
        steps_(Number(options, "--steps")),
        messages_(Number(options, "--messages")),
        per_answer_(Number(options, "--per-answer")),
        step_ms_(Number(options, "--step-ms")),
        up_(Number(options, "--up-bytes"), 'x'),
        tls_ca_pem_(Text(options, "--tls-cert").empty() ? "" : ReadFile(Text(options, "--tls-cert"))) {}

  bool Run() {
    loop_.Post([this] {
      since_ = loop_.Now();
      before_ = perf::control::ProcessSample::Of(server_->pid());
      own_cpu_before_ns_ = perf::control::ProcessSample::Of(getpid()).cpu_ns;
      empty_bytes_ = before_.resident_bytes;
      Open();
    });
    loop_.Run();
    return !failed_;
  }

 private:
  static constexpr int64_t kRetryMs = 50;

  void Open() {
    while (static_cast<int>(streams_.size()) < streams_count_ &&
           static_cast<int>(streams_.size()) < answers_ + opening_) {
      streams_.emplace_back();
      OpenOne(streams_.size() - 1);
    }
    if (failed_) return loop_.Stop();
    if (answers_ < streams_count_) return Later(1, [this] { Open(); });
    Say("open_s", static_cast<double>(loop_.Now().ns() - since_.ns()) * 1e-9);
    const perf::control::ProcessSample now = perf::control::ProcessSample::Of(server_->pid());
    Say("open_server_cpu_s", static_cast<double>(now.cpu_ns - before_.cpu_ns) * 1e-9);
    Say("open_client_cpu_s",
        static_cast<double>(perf::control::ProcessSample::Of(getpid()).cpu_ns - own_cpu_before_ns_) * 1e-9);
    Later(1000, [this] { Opened(); });
  }

  // Again if it ends before its first answer, as an agent would.
  void OpenOne(size_t i) {
    auto stream = std::make_shared<agent::link::ControllerStream>(&loop_, &thread_, &outstanding_);
    const auto answered = std::make_shared<bool>(false);
    stream->StartFromLoop(
        agent::link::NewControllerChannel({server_->address(), "", "", tls_ca_pem_}),
        [this, answered](const std::string&) {
          *answered = true;
          ++answers_;
        },
        [this, answered, i](const grpc::Status&) {
          failed_ = failed_ || *answered;
          Later(kRetryMs, [this, i] { OpenOne(i); });
        });
    stream->SendFromLoop(std::string(64, 'x'));
    streams_[i] = std::move(stream);
  }

  void Opened() {
    const perf::control::ProcessSample now = perf::control::ProcessSample::Of(server_->pid());
    Say("resident_bytes", static_cast<double>(now.resident_bytes - before_.resident_bytes));
    Begin();
  }

  void Begin() {
    before_ = perf::control::ProcessSample::Of(server_->pid());
    since_ = loop_.Now();
    Exchange();
  }

  // The messages whose time has come.
  void Exchange() {
    const int64_t due =
        step_ms_ == 0 ? int64_t{steps_} * messages_ : loop_.Now().MsSince(since_) * messages_ / step_ms_;
    for (; sent_ < int64_t{steps_} * messages_ && sent_ < due; ++sent_) {
      for (auto& stream : streams_) stream->SendFromLoop(up_);
    }
    const int64_t expected = streams_count_ * (1 + (sent_ + 0) / per_answer_);
    if (failed_ || (sent_ == int64_t{steps_} * messages_ && answers_ >= expected)) return End();
    Later(1, [this] { Exchange(); });
  }

  void End() {
    const perf::control::ProcessSample now = perf::control::ProcessSample::Of(server_->pid());
    const double messages = static_cast<double>(sent_) * streams_count_;
    if (messages > 0) Say("cpu_us_per_message", static_cast<double>(now.cpu_ns - before_.cpu_ns) * 1e-3 / messages);
    Say("resident_bytes_after_steps", static_cast<double>(now.resident_bytes - empty_bytes_));
    Say("steps_s", static_cast<double>(loop_.Now().ns() - since_.ns()) * 1e-9);
    // The server dies with this process.
    std::fflush(stdout);
    _exit(failed_ ? 1 : 0);
  }

  template <typename Function>
  void Later(int64_t ms, Function fn) {
    loop_.AddTimerFromLoop(loop_.Now().PlusMs(ms), std::move(fn));
  }
  static void Say(const char* name, double value) { std::printf("%-28s %.10g\n", name, value); }

  const perf::control::ServerProcess* const server_;
  const int streams_count_, opening_, steps_, messages_, per_answer_, step_ms_;
  const std::string up_, tls_ca_pem_;
  EventLoop loop_{"bare"};
  agent::link::Outstanding outstanding_;
  CompletionThread thread_{"bare-grpc", std::make_unique<grpc::CompletionQueue>()};
  std::vector<std::shared_ptr<agent::link::ControllerStream>> streams_;
  TimePoint since_;
  perf::control::ProcessSample before_;
  int64_t own_cpu_before_ns_ = 0;
  int64_t empty_bytes_ = 0;
  int64_t sent_ = 0;
  int64_t answers_ = 0;
  bool failed_ = false;
};

int Main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) options[argv[i]] = argv[i + 1];
  rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  options.emplace("--per-answer", "1");
  // As farandole-perf opens them.
  options.emplace("--opening", "64");
  if (options.count("--ready-fd") > 0) Serve(options);
  std::vector<std::string> command(argv, argv + argc);
  const auto server = perf::control::ServerProcess::Start(command, "no secret");
  if (!server.ok()) {
    std::fprintf(stderr, "grpc_streams: %s\n", std::string(server.status().message()).c_str());
    return 1;
  }
  return Client(options, server->get()).Run() ? 0 : 1;
}

}  // namespace
}  // namespace farandole::bench

int main(int argc, char** argv) { return farandole::bench::Main(argc, argv); }
