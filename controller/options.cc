#include "controller/options.h"

#include <cstdlib>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "proto/version.h"

namespace farandole::controller {
namespace {

void ReadLevel(CommandLine* line, hub::LogLevel* level) {
  static const char* const kLevels[] = {"debug", "info", "warning", "error"};
  std::string word;
  line->Text("--log-level", &word);
  for (int i = 0; i < 4; ++i) {
    if (word != kLevels[i]) continue;
    *level = static_cast<hub::LogLevel>(i);
    return;
  }
  if (line->Has("--log-level")) line->Refuse("--log-level", "debug, info, warning or error");
}

absl::Status Check(const Options& o) {
  if ((o.key_fd >= 0) == !o.key_file.empty()) {
    return absl::InvalidArgumentError("give the controller key with one of --key-fd and --key-file");
  }
  if (o.tls_cert.empty() != o.tls_key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key go together");
  }
  if (!o.tls_client_ca.empty() && o.tls_cert.empty()) {
    return absl::InvalidArgumentError("--tls-client-ca goes with --tls-cert and --tls-key");
  }
  if (!o.tls_cert.empty() && o.tls_pinned) {
    return absl::InvalidArgumentError("--tls-cert and --tls-pinned exclude each other");
  }
  if (o.tls_cert.empty() && !o.tls_pinned && !o.insecure && !IsLoopback(o.listen)) {
    return absl::InvalidArgumentError(absl::StrCat(o.listen,
                                                   " can be reached from other hosts: give --tls-cert and --tls-key, "
                                                   "or --tls-pinned, or say --insecure if the network "
                                                   "can be trusted"));
  }
  return absl::OkStatus();
}

// A path that is there and empty is a variable that was not set.
void ReadPath(CommandLine* line, const std::string& name, std::string* path) {
  line->Text(name, path);
  if (line->Has(name) && path->empty()) line->Refuse(name, "a path");
}

}  // namespace

const Program& ControllerProgram() {
  static const Program program = {
      "farandole-controller",
      kVersion,
      "(--key-fd N | --key-file FILE) [options]\n       farandole-controller query ...  (query --help: says how)\n"
      "       farandole-controller token ...  (token --help)",
      "Decides for many jobs who is a member and what is executed next. SIGTERM ends it at once, SIGUSR1 as soon as "
      "no\n"
      "agent of any job is left.\n",
      {
          {"--listen", "HOST:PORT", "where agents connect (127.0.0.1:0; port 0 = any free one)"},
          {"--key-fd", "N", "read the controller key from this descriptor; of two lines the second is an old key"},
          {"--key-file", "FILE", "read it from this file of mode 0600, and again when it changes"},
          {"--ready-fd", "N", "write HOST:PORT and a newline here when listening, then close it"},
          {"--lifeline-fd", "N", "end when this descriptor reads end of file"},
          {"--health-listen", "HOST:PORT", "answer gRPC health checks here, without a token: readiness, not liveness"},
          {"--metrics-listen", "HOST:PORT", "answer Prometheus (GET /metrics) here, without a token"},
          {"--tls-cert", "FILE", "certificate chain (PEM), read again when it changes; wanted beyond loopback"},
          {"--tls-key", "FILE", "its private key (PEM)"},
          {"--tls-client-ca", "FILE",
           "clients need certificates that these have signed (PEM), with the URI farandole:job:NAME of their job"},
          {"--tls-pinned", "", "TLS with a certificate that follows from the key, for agents that were handed it"},
          {"--print-certificate", "", "print that certificate and end"},
          {"--first", "",
           "none has served these jobs before: an elastic one need not wait for members of an earlier life"},
          {"--insecure", "", "listen beyond loopback without TLS"},
          {"--limits-file", "FILE",
           "how many jobs and agents each namespace may have, read again when it changes: NAME jobs=N agents=N"},
          {"--audit-log", "FILE", "who connects, asks, is refused: a JSON object a line; - is standard output"},
          {"--log-level", "LEVEL", "debug, info, warning or error (warning)"},
      }};
  return program;
}

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args) {
  Options options;
  const absl::Status read = ReadSettings([](const char* name) { return std::getenv(name); }, &options.settings);
  // Nobody's words on the command line.
  if (!read.ok()) return absl::FailedPreconditionError(read.message());
  absl::StatusOr<CommandLine> line = CommandLine::Split(ControllerProgram(), args);
  if (!line.ok()) return line.status();
  line->Address("--listen", &options.listen);
  line->Address("--health-listen", &options.health_listen);
  line->Address("--metrics-listen", &options.metrics_listen);
  line->Descriptor("--key-fd", &options.key_fd);
  line->Descriptor("--ready-fd", &options.ready_fd);
  line->Descriptor("--lifeline-fd", &options.lifeline_fd);
  line->Text("--key-file", &options.key_file);
  line->Text("--tls-cert", &options.tls_cert);
  line->Text("--tls-key", &options.tls_key);
  line->Text("--tls-client-ca", &options.tls_client_ca);
  ReadPath(&*line, "--limits-file", &options.limits_file);
  ReadPath(&*line, "--audit-log", &options.audit_log);
  ReadLevel(&*line, &options.log_level);
  options.first = line->Has("--first");
  options.insecure = line->Has("--insecure");
  options.tls_pinned = line->Has("--tls-pinned");
  options.print_certificate = line->Has("--print-certificate");
  const absl::Status checked = line->status().ok() ? Check(options) : line->status();
  if (!checked.ok()) return checked;
  return options;
}

}  // namespace farandole::controller
