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

namespace farandole {

const char kUsage[] =
    "usage: farandole-controller (--key-fd N | --key-file FILE) [options]\n"
    "       farandole-controller query ...  (without more: says how)\n"
    "  --listen HOST:PORT         where agents connect (127.0.0.1:0; port 0 = any free one)\n"
    "  --key-fd N                 read the controller key from this descriptor\n"
    "  --key-file FILE            read it from this file of mode 0600\n"
    "  --ready-fd N               write HOST:PORT and a newline here when listening, then close it\n"
    "  --lifeline-fd N            end when this descriptor reads end of file\n"
    "  --health-listen HOST:PORT  answer gRPC health checks here, without a token\n"
    "  --metrics-listen HOST:PORT answer Prometheus (GET /metrics) here, without a token\n"
    "  --tls-cert FILE, --tls-key FILE  certificate chain and private key (PEM); wanted beyond loopback\n"
    "  --tls-pinned               TLS with a certificate that follows from the key, for agents that were handed it\n"
    "  --print-certificate        print that certificate and end\n"
    "  --insecure                 listen beyond loopback without TLS\n"
    "  --log-level LEVEL          debug, info, warning (default) or error\n"
    "  --version, --help\n"
    "SIGTERM ends it at once, SIGUSR1 as soon as no agent of any job is left.\n";

namespace {

// The first of both variables that is set and not empty; null if there is none.
const char* Find(const char* name, const char* other, const char** found) {
  for (const char* candidate : {name, other}) {
    const char* value = std::getenv(candidate);
    *found = candidate;
    if (value != nullptr && *value != '\0') return value;
  }
  return nullptr;
}

absl::Status ReadSeconds(const char* name, const char* other, int64_t* ms) {
  constexpr double kSecondsMax = 1e9;
  const char* found;
  const char* value = Find(name, other, &found);
  if (value == nullptr) return absl::OkStatus();
  double seconds;
  if (!absl::SimpleAtod(value, &seconds) || !(seconds >= 0) || seconds > kSecondsMax) {
    return absl::InvalidArgumentError(absl::StrCat(found, " must be a number of seconds, not \"", value, "\""));
  }
  *ms = static_cast<int64_t>(seconds * 1000);
  return absl::OkStatus();
}

// What is batched, and how it is said.
absl::Status ReadBatching(Options* o) {
  constexpr double kWindowMaxMs = 60000;
  constexpr uint32_t kSlotsMax = 65536;
  const char* found;
  if (const char* value = Find("FARANDOLE_CYCLE_TIME", "HOROVOD_CYCLE_TIME", &found)) {
    double ms;
    if (!absl::SimpleAtod(value, &ms) || !(ms >= 0) || ms > kWindowMaxMs) {
      return absl::InvalidArgumentError(
          absl::StrCat(found, " must be a number of milliseconds up to 60000, not \"", value, "\""));
    }
    o->batch_window_ms = static_cast<uint32_t>(std::ceil(ms));
  }
  if (const char* value = Find("FARANDOLE_CACHE_CAPACITY", "HOROVOD_CACHE_CAPACITY", &found)) {
    if (!absl::SimpleAtoi(value, &o->cache_capacity) || o->cache_capacity > kSlotsMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(found, " must be a number of signatures up to 65536, not \"", value, "\""));
    }
  }
  const char* deterministic = Find("FARANDOLE_DETERMINISTIC", "FARANDOLE_DETERMINISTIC", &found);
  o->deterministic = deterministic != nullptr && std::atoi(deterministic) > 0;
  return absl::OkStatus();
}

absl::Status ReadEnvironment(Options* o) {
  const char* found;
  const char* threshold = Find("FARANDOLE_FUSION_THRESHOLD", "HOROVOD_FUSION_THRESHOLD", &found);
  if (threshold != nullptr &&
      (!absl::SimpleAtoi(threshold, &o->fusion_threshold_bytes) || o->fusion_threshold_bytes < 0)) {
    return absl::InvalidArgumentError(absl::StrCat(found, " must be a number of bytes, not \"", threshold, "\""));
  }
  absl::Status status = ReadBatching(o);
  status.Update(ReadSeconds("FARANDOLE_STALL_CHECK_TIME_SECONDS", "HOROVOD_STALL_CHECK_TIME_SECONDS",
                            &o->watch.stall.warn_after_ms));
  status.Update(ReadSeconds("FARANDOLE_STALL_SHUTDOWN_TIME_SECONDS", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS",
                            &o->watch.stall.shutdown_after_ms));
  status.Update(
      ReadSeconds("FARANDOLE_DIVERGENCE_SECONDS", "FARANDOLE_DIVERGENCE_SECONDS", &o->watch.divergence_after_ms));
  // Like Horovod's own: a number above 0 is yes. Neither time counts then.
  const char* disable = Find("FARANDOLE_STALL_CHECK_DISABLE", "HOROVOD_STALL_CHECK_DISABLE", &found);
  if (disable != nullptr && std::atoi(disable) > 0) o->watch.stall = {0, 0};
  return status;
}

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

absl::Status ToLevel(const std::string& value, LogLevel* level) {
  static const char* const kLevels[] = {"debug", "info", "warning", "error"};
  for (int i = 0; i < 4; ++i) {
    if (value != kLevels[i]) continue;
    *level = static_cast<LogLevel>(i);
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
  const absl::Status read = ReadEnvironment(&options);
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

}  // namespace farandole
