#include "controller/options.h"

#include <cmath>
#include <cstdlib>
#include <functional>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/address.h"

namespace farandole::controller {

const char kUsage[] =
    "usage: farandole-controller (--key-fd N | --key-file FILE) [options]\n"
    "       farandole-controller query ...  (without more: says how)\n"
    "  --listen HOST:PORT         where agents connect (127.0.0.1:0; port 0 = any free one)\n"
    "  --key-fd N                 read the controller key from this descriptor\n"
    "  --key-file FILE            read it from this file of mode 0600\n"
    "  --ready-fd N               write HOST:PORT and a newline here when listening, then close it\n"
    "  --lifeline-fd N            end when this descriptor reads end of file\n"
    "  --health-listen HOST:PORT  answer gRPC health checks here, without a token: for readiness, not for liveness\n"
    "  --metrics-listen HOST:PORT answer Prometheus (GET /metrics) here, without a token\n"
    "  --tls-cert FILE, --tls-key FILE  certificate chain and private key (PEM); wanted beyond loopback\n"
    "  --tls-pinned               TLS with a certificate that follows from the key, for agents that were handed it\n"
    "  --print-certificate        print that certificate and end\n"
    "  --insecure                 listen beyond loopback without TLS\n"
    "  --log-level LEVEL          debug, info, warning (default) or error\n"
    "  --version, --help\n"
    "SIGTERM ends it at once, SIGUSR1 as soon as no agent of any job is left.\n";

namespace {

absl::Status ToDescriptor(const std::string& name, const std::string& value, int* fd) {
  if (absl::SimpleAtoi(value, fd) && *fd >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " wants a descriptor number, not \"", value, "\""));
}

absl::Status ToAddress(const std::string& name, const std::string& value, std::string* address) {
  const absl::string_view host = HostOf(value);
  int port = -1;
  if (!host.empty() && absl::SimpleAtoi(absl::string_view(value).substr(host.size() + 1), &port) && port >= 0 &&
      port <= 65535) {
    *address = value;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(name, " wants HOST:PORT, not \"", value, "\""));
}

absl::Status ToLevel(const std::string& value, hub::LogLevel* level) {
  static const char* const kLevels[] = {"debug", "info", "warning", "error"};
  for (int i = 0; i < 4; ++i) {
    if (value != kLevels[i]) continue;
    *level = static_cast<hub::LogLevel>(i);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--log-level wants debug, info, warning or error, not \"", value, "\""));
}

absl::Status SetValue(const std::string& name, const std::string& value, Options* o) {
  if (name == "--listen") return ToAddress(name, value, &o->listen);
  if (name == "--health-listen") return ToAddress(name, value, &o->health_listen);
  if (name == "--metrics-listen") return ToAddress(name, value, &o->metrics_listen);
  if (name == "--key-fd") return ToDescriptor(name, value, &o->key_fd);
  if (name == "--ready-fd") return ToDescriptor(name, value, &o->ready_fd);
  if (name == "--lifeline-fd") return ToDescriptor(name, value, &o->lifeline_fd);
  if (name == "--log-level") return ToLevel(value, &o->log_level);
  std::string* const text = name == "--key-file"   ? &o->key_file
                            : name == "--tls-cert" ? &o->tls_cert
                            : name == "--tls-key"  ? &o->tls_key
                                                   : nullptr;
  if (text == nullptr) return absl::InvalidArgumentError(absl::StrCat("unknown argument ", name));
  *text = value;
  return absl::OkStatus();
}

bool SetFlag(const std::string& name, Options* o) {
  bool* const flag = name == "--help"                ? &o->help
                     : name == "--version"           ? &o->version
                     : name == "--insecure"          ? &o->insecure
                     : name == "--tls-pinned"        ? &o->tls_pinned
                     : name == "--print-certificate" ? &o->print_certificate
                                                     : nullptr;
  if (flag != nullptr) *flag = true;
  return flag != nullptr;
}

absl::Status Check(const Options& o) {
  if ((o.key_fd >= 0) == !o.key_file.empty()) {
    return absl::InvalidArgumentError("give the controller key with one of --key-fd and --key-file");
  }
  if (o.tls_cert.empty() != o.tls_key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key go together");
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

}  // namespace

absl::StatusOr<Options> ParseOptions(const std::vector<std::string>& args) {
  Options options;
  const absl::Status read = ReadSettings([](const char* name) { return std::getenv(name); }, &options.settings);
  if (!read.ok()) return read;
  for (size_t i = 0; i < args.size(); ++i) {
    std::string name = args[i];
    if (SetFlag(name, &options)) continue;
    std::string value;
    const size_t equals = name.find('=');
    if (equals != std::string::npos) {
      value = name.substr(equals + 1);
      name.resize(equals);
    } else if (i + 1 < args.size()) {
      value = args[++i];
    } else {
      return absl::InvalidArgumentError(absl::StrCat("unknown argument, or one without its value: ", name));
    }
    const absl::Status set = SetValue(name, value, &options);
    if (!set.ok()) return set;
  }
  if (options.help || options.version) return options;
  const absl::Status checked = Check(options);
  if (!checked.ok()) return checked;
  return options;
}

}  // namespace farandole::controller
