// farandole-controller: knows jobs and members, what is ready, what is executed next.

#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/address.h"
#include "base/auth.h"
#include "base/clock.h"
#include "base/command_line.h"
#include "base/descriptor_limit.h"
#include "base/event_loop.h"
#include "base/unique_fd.h"
#include "controller/audit/audit_log.h"
#include "controller/files/limits_file.h"
#include "controller/hub/log.h"
#include "controller/options.h"
#include "controller/query/query_main.h"
#include "controller/rpc/pinned_certificate.h"
#include "controller/rpc/server.h"
#include "controller/rpc/tls_files.h"
#include "controller/token/controller_keys.h"
#include "controller/token/key_file.h"
#include "controller/token/key_ring.h"
#include "controller/token/token_main.h"
#include "proto/version.h"

namespace farandole::controller {
namespace {

rpc::TlsPaths PathsOf(const Options& options) { return {options.tls_cert, options.tls_key, options.tls_client_ca}; }

absl::StatusOr<rpc::TlsFiles> MakeTls(const Options& options, const token::ControllerKeys& keys) {
  if (!options.tls_cert.empty()) return rpc::ReadTlsFiles(PathsOf(options));
  if (!options.tls_pinned) return rpc::TlsFiles();
  auto made = rpc::MakePinnedCertificate(keys.front());
  if (!made.ok()) return made.status();
  return rpc::TlsFiles{made->certificate, made->private_key, ""};
}

// What is read from files at the start, and may be exchanged.
struct Held {
  std::shared_ptr<token::KeyRing> keys;
  std::shared_ptr<rpc::TlsRing> tls;
  std::shared_ptr<files::LimitRing> limits;
};

absl::StatusOr<Held> ReadHeld(const Options& options) {
  auto keys = token::ReadKeys(options.key_fd, options.key_file);
  if (!keys.ok()) return keys.status();
  auto tls = MakeTls(options, *keys);
  if (!tls.ok()) return tls.status();
  auto limits = options.limits_file.empty() ? LimitTable() : files::ReadLimits(options.limits_file);
  if (!limits.ok()) return limits.status();
  return Held{std::make_shared<token::KeyRing>(*std::move(keys)), std::make_shared<rpc::TlsRing>(*std::move(tls)),
              std::make_shared<files::LimitRing>(*std::move(limits))};
}

absl::StatusOr<audit::Audit> OpenAudit(const Options& options) {
  if (options.audit_log.empty()) return audit::Audit(audit::NoAudit);
  auto opened = audit::AuditLog::Open(options.audit_log, [] { return absl::GetCurrentTimeNanos() / 1000000; });
  if (!opened.ok()) return opened.status();
  return audit::Audit([log = std::shared_ptr<audit::AuditLog>(*std::move(opened))](const audit::AuditEvent& event) {
    log->Write(event);
  });
}

rpc::ServerConfig MakeConfig(const Options& options, const Held& held, const audit::Audit& audit) {
  rpc::ServerConfig config;
  config.listen = options.listen;
  config.health_listen = options.health_listen;
  config.metrics_listen = options.metrics_listen;
  config.keys = held.keys;
  config.now_s = [] { return absl::GetCurrentTimeNanos() / 1000000000; };
  config.tls = held.tls;
  config.hub.limits_of = [limits = held.limits](absl::string_view name) { return limits->Get()->Of(name); };
  config.hub.audit = audit;
  // Lives of a controller are ordered, also across hosts: beside the ends of tokens the only use of the wall clock. If
  // it was set back, the hub counts on from what agents say that they know.
  config.hub.job.controller_incarnation = static_cast<uint64_t>(absl::GetCurrentTimeNanos());
  if (!options.first) config.hub.job.serves_since = Clock::Monotonic().Now();
  config.hub.job.settings = options.settings;
  config.hub.greater_incarnation = [](uint64_t than) {
    const std::string random = RandomBytes(2);
    return than + 1 + static_cast<uint8_t>(random[0]) + 256 * static_cast<uint8_t>(random[1]);
  };
  config.hub.job.new_data_key = [] { return RandomBytes(kKeyBytes); };
  return config;
}

// Blocks the signals that end us in all threads to come, and hands their numbers to `on_signal` on the loop.
UniqueFd HandleSignals(EventLoop* loop, std::function<void(uint32_t)> on_signal) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int number : {SIGTERM, SIGINT, SIGUSR1}) sigaddset(&signals, number);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  UniqueFd fd(signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  loop->AddFdFromLoop(fd.get(), EPOLLIN, [fd = fd.get(), on_signal = std::move(on_signal)](uint32_t) {
    signalfd_siginfo info;
    if (read(fd, &info, sizeof info) == sizeof info) on_signal(info.ssi_signo);
  });
  return fd;
}

void StopAtEndOf(int lifeline, EventLoop* loop) {
  loop->AddFdFromLoop(lifeline, EPOLLIN, [lifeline, loop](uint32_t) {
    char buffer[64];
    const ssize_t n = read(lifeline, buffer, sizeof buffer);
    if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) loop->Stop();
  });
}

void SayReady(int fd, const std::string& address) {
  const std::string line = absl::StrCat(address, "\n");
  (void)!write(fd, line.data(), line.size());
  close(fd);
}

void Tell(const audit::Audit& audit, const char* what, const std::string& why) {
  audit::AuditEvent event;
  event.event = what;
  event.why = why;
  audit(event);
}

int Run(const Options& options) {
  RaiseDescriptorLimit();
  const hub::Log log(options.log_level);
  EventLoop loop("controller");
  std::unique_ptr<rpc::Server> server;
  // None is handled before the loop runs.
  const UniqueFd signals = HandleSignals(&loop, [&loop, &server](uint32_t number) {
    if (number != SIGUSR1) return loop.Stop();
    server->WhenEmpty([&loop] { loop.Stop(); });
  });
  const auto held = ReadHeld(options);
  const auto audit = held.ok() ? OpenAudit(options) : held.status();
  if (!audit.ok()) {
    log.Write(hub::LogLevel::kError, audit.status().message());
    return 2;
  }
  auto started = rpc::Server::Start(MakeConfig(options, *held, *audit), &loop, &log);
  if (!started.ok()) {
    log.Write(hub::LogLevel::kError, started.status().message());
    return 1;
  }
  server = *std::move(started);
  const std::string address = absl::StrCat(HostOf(options.listen), ":", server->port());
  log.Write(hub::LogLevel::kInfo, absl::StrCat("version ", kVersion, " listens on ", address,
                                               held->tls->Get()->private_key.empty() ? ", without TLS" : ", with TLS"));
  Tell(*audit, "controller_started", absl::StrCat("version ", kVersion, ", ", address));
  if (options.ready_fd >= 0) SayReady(options.ready_fd, address);
  if (options.lifeline_fd >= 0) StopAtEndOf(options.lifeline_fd, &loop);
  token::KeyFile key_file(options.key_file, held->keys.get(), &loop, &log, *audit);
  rpc::TlsWatch certificates(PathsOf(options), held->tls.get(), &loop, &log, *audit);
  files::LimitsFile limits(options.limits_file, held->limits.get(), &loop, &log, *audit);
  loop.RunHere([&] {
    if (!options.key_file.empty()) key_file.WatchFromLoop();
    if (!options.tls_cert.empty()) certificates.WatchFromLoop();
    if (!options.limits_file.empty()) limits.WatchFromLoop();
  });
  loop.Run();
  // Its agents go first.
  server = nullptr;
  Tell(*audit, "controller_ended", "");
  log.Write(hub::LogLevel::kInfo, "ends");
  return 0;
}

int Complain(const absl::Status& status) {
  std::fprintf(stderr, "farandole-controller: %s\n", std::string(status.message()).c_str());
  return 2;
}

int PrintCertificate(const Options& options) {
  const auto keys = token::ReadKeys(options.key_fd, options.key_file);
  const auto made = keys.ok() ? rpc::MakePinnedCertificate(keys->front()) : keys.status();
  if (!made.ok()) return Complain(made.status());
  const std::string& text = made->certificate;
  return write(STDOUT_FILENO, text.data(), text.size()) == static_cast<ssize_t>(text.size()) ? 0 : 1;
}

int Main(const std::vector<std::string>& arguments) {
  if (!arguments.empty() && arguments[0] == "query") return query::QueryMain({arguments.begin() + 1, arguments.end()});
  if (!arguments.empty() && arguments[0] == "token") return token::TokenMain({arguments.begin() + 1, arguments.end()});
  if (const auto code = AnswerHelp(ControllerProgram(), arguments)) return *code;
  const auto options = ParseOptions(arguments);
  if (absl::IsFailedPrecondition(options.status())) return Complain(options.status());
  if (!options.ok()) return UsageError(ControllerProgram(), options.status());
  return options->print_certificate ? PrintCertificate(*options) : Run(*options);
}

}  // namespace
}  // namespace farandole::controller

int main(int argc, char** argv) { return farandole::controller::Main({argv + 1, argv + argc}); }
