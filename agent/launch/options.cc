#include "agent/launch/options.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/address.h"
#include "base/auth.h"
#include "base/job_name.h"
#include "base/read_file.h"

namespace farandole::agent::launch {
namespace {

constexpr int32_t kSizeMax = 65536;

// What was written, before it is checked together.
struct Raw {
  std::map<std::string, std::string> values;
  std::vector<std::string> command;

  bool Has(const std::string& name) const { return values.count(name) > 0; }
};

// AgentOptions with a value and those without.
constexpr const char* kValued[] = {
    "--job",           "--controller",  "--token-fd",      "--token-file",  "--size",        "--first-rank",
    "--local-size",    "--host-name",   "--socket",        "--ready-fd",    "--lifeline-fd", "--tls-ca",
    "--tls-pinned-fd", "--local-sizes", "--grace-seconds", "--launcher-fd", "--agent-id",    "--data-address"};
constexpr const char* kFlags[] = {"--insecure", "--prefix-output"};

template <size_t N>
bool Among(const char* const (&names)[N], const std::string& name) {
  for (const char* known : names) {
    if (name == known) return true;
  }
  return false;
}

absl::StatusOr<Raw> Split(const std::vector<std::string>& arguments) {
  Raw raw;
  for (size_t i = 0; i < arguments.size(); ++i) {
    std::string name = arguments[i], value;
    if (name == "--") {
      raw.command.assign(arguments.begin() + i + 1, arguments.end());
      if (raw.command.empty()) return absl::InvalidArgumentError("no command after --");
      return raw;
    }
    const size_t equals = name.find('=');
    const bool joined = equals != std::string::npos;
    if (joined) {
      value = name.substr(equals + 1);
      name.resize(equals);
    }
    if (Among(kFlags, name) && !joined) {
      raw.values[name];
      continue;
    }
    if (!Among(kValued, name)) return absl::InvalidArgumentError(absl::StrCat("unknown argument '", arguments[i], "'"));
    if (!joined) {
      if (++i == arguments.size()) return absl::InvalidArgumentError(absl::StrCat(name, " needs a value"));
      value = arguments[i];
    }
    raw.values[name] = value;
  }
  return raw;
}

// Collects numbers and keeps the first complaint.
class Numbers {
 public:
  explicit Numbers(const Raw& raw) : raw_(raw) {}

  template <typename T>
  void Read(const std::string& name, T low, T high, T* out) {
    auto it = raw_.values.find(name);
    if (it == raw_.values.end() || !status_.ok()) return;
    T value;
    if (absl::SimpleAtoi(it->second, &value) && value >= low && value <= high) {
      *out = value;
      return;
    }
    status_ = absl::InvalidArgumentError(
        absl::StrCat(name, " must be a number from ", low, " to ", high, ", not '", it->second, "'"));
  }
  const absl::Status& status() const { return status_; }

 private:
  const Raw& raw_;
  absl::Status status_;
};

absl::Status ReadNumbers(const Raw& raw, AgentOptions* options) {
  Numbers numbers(raw);
  numbers.Read("--size", 1, kSizeMax, &options->size);
  if (!raw.Has("--size")) return absl::InvalidArgumentError("--size is missing");
  numbers.Read("--first-rank", 0, options->size - 1, &options->first_rank);
  options->local_size = options->size;
  numbers.Read("--local-size", 1, kSizeMax, &options->local_size);
  numbers.Read("--ready-fd", 0, INT32_MAX, &options->ready_fd);
  numbers.Read("--lifeline-fd", 0, INT32_MAX, &options->lifeline_fd);
  numbers.Read("--launcher-fd", 0, INT32_MAX, &options->launcher_fd);
  if (!numbers.status().ok()) return numbers.status();
  if (options->local_size > options->size - options->first_rank) {
    return absl::InvalidArgumentError(absl::StrCat("ranks ", options->first_rank, " to ",
                                                   options->first_rank + options->local_size - 1,
                                                   " do not fit into a job of size ", options->size));
  }
  auto grace = raw.values.find("--grace-seconds");
  if (grace == raw.values.end()) return absl::OkStatus();
  double seconds;
  if (!absl::SimpleAtod(grace->second, &seconds) || !(seconds >= 0 && seconds <= 86400)) {
    return absl::InvalidArgumentError(absl::StrCat("--grace-seconds must be 0 to 86400, not '", grace->second, "'"));
  }
  options->grace_ms = static_cast<int64_t>(seconds * 1000);
  return absl::OkStatus();
}

absl::Status CheckJobName(const std::string& job) {
  if (IsJobName(job)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--job must be ", kJobNameRule, ", not '", job, "'"));
}

// Numbers of ranks of all hosts, in the order of ranks; this one is where its first rank says.
absl::Status ReadLocalSizes(const Raw& raw, AgentOptions* options) {
  if (!raw.Has("--local-sizes")) return absl::OkStatus();
  int64_t ranks = 0;
  bool found = false;
  for (absl::string_view part : absl::StrSplit(raw.values.at("--local-sizes"), ',')) {
    int32_t size;
    if (!absl::SimpleAtoi(part, &size) || size < 1 || size > kSizeMax) {
      return absl::InvalidArgumentError(absl::StrCat("--local-sizes holds '", part, "', which is no number of ranks"));
    }
    if (ranks == options->first_rank && size == options->local_size) {
      options->host_index = static_cast<int32_t>(options->local_sizes.size());
      found = true;
    }
    options->local_sizes.push_back(size);
    ranks += size;
  }
  if (found && ranks == options->size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--local-sizes ", raw.values.at("--local-sizes"),
                                                 " does not fit ranks ", options->first_rank, " to ",
                                                 options->first_rank + options->local_size - 1, " of ", options->size));
}

absl::Status ReadSecurity(const Raw& raw, AgentOptions* options) {
  if (raw.Has("--token-fd") == raw.Has("--token-file")) {
    return absl::InvalidArgumentError("exactly one of --token-fd and --token-file is needed");
  }
  absl::StatusOr<std::string> token;
  if (raw.Has("--token-file")) {
    token = ReadSecretFile(raw.values.at("--token-file"));
  } else {
    int fd = -1;
    Numbers numbers(raw);
    numbers.Read("--token-fd", 0, INT32_MAX, &fd);
    if (!numbers.status().ok()) return numbers.status();
    token = ReadSecretFd(fd);
  }
  if (!token.ok()) return absl::InvalidArgumentError(token.status().message());
  for (char c : *token) {
    if (!absl::ascii_isgraph(c)) return absl::InvalidArgumentError("the token holds characters that no token has");
  }
  options->token = *token;

  if (raw.Has("--tls-pinned-fd")) {
    if (raw.Has("--tls-ca") || raw.Has("--insecure")) {
      return absl::InvalidArgumentError("--tls-pinned-fd excludes --tls-ca and --insecure");
    }
    int fd = -1;
    Numbers numbers(raw);
    numbers.Read("--tls-pinned-fd", 0, INT32_MAX, &fd);
    if (!numbers.status().ok()) return numbers.status();
    absl::StatusOr<std::string> certificate = ReadSecretFd(fd);
    if (!certificate.ok()) return absl::InvalidArgumentError(certificate.status().message());
    options->tls_ca_pem = *certificate;
    options->tls_pinned = true;
    return absl::OkStatus();
  }
  if (raw.Has("--tls-ca") && raw.Has("--insecure")) {
    return absl::InvalidArgumentError("--tls-ca and --insecure exclude each other");
  }
  if (raw.Has("--tls-ca")) {
    options->tls_ca_pem = ReadFile(raw.values.at("--tls-ca"));
    if (options->tls_ca_pem.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("cannot read ", raw.values.at("--tls-ca")));
    }
  } else if (!raw.Has("--insecure") && !IsLoopback(options->controller)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the controller ", options->controller,
                     " is beyond loopback: give --tls-ca FILE, or --insecure to go without"));
  }
  return absl::OkStatus();
}

// A descriptor meant for this process, not for the workers.
absl::Status KeepFromWorkers(const char* name, int fd) {
  if (fd >= 0 && fcntl(fd, F_SETFD, FD_CLOEXEC) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": descriptor ", fd, " is not open"));
  }
  return absl::OkStatus();
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && name[0] != '\0' ? name : "localhost";
}

bool IsVerbose() {
  for (const char* name : {"FARANDOLE_LOG_LEVEL", "HOROVOD_LOG_LEVEL"}) {
    const char* const level = std::getenv(name);
    if (level == nullptr || *level == '\0') continue;
    const std::string lower = absl::AsciiStrToLower(level);
    return lower == "info" || lower == "debug" || lower == "trace";
  }
  return false;
}

}  // namespace

const char* UsageText() {
  return "usage: farandole-agent --job NAME --controller HOST:PORT (--token-fd N | --token-file FILE) --size N\n"
         "         [--first-rank R] [--local-size L] [--host-name NAME] [--socket NAME] [--ready-fd N]\n"
         "         [--lifeline-fd N] [--launcher-fd N] [--agent-id ID]\n"
         "         [--tls-ca FILE | --tls-pinned-fd N | --insecure] [--local-sizes L,L...]\n"
         "         [--data-address ADDRESS] [--prefix-output] [--grace-seconds S] [-- COMMAND ARGUMENT...]\n"
         "Speaks to the controller for the workers of this host. With a command it starts L of them, ranks R to "
         "R+L-1,\n"
         "and ends with them; without, it serves workers that others start until SIGTERM. With --launcher-fd the\n"
         "workers live on when it is killed, and another one with the same ID and socket takes over.\n";
}

absl::StatusOr<AgentOptions> ParseAgentOptions(const std::vector<std::string>& arguments) {
  absl::StatusOr<Raw> raw = Split(arguments);
  if (!raw.ok()) return raw.status();
  AgentOptions options;
  options.command = raw->command;
  const auto text = [&](const char* name, const std::string& otherwise) {
    return raw->Has(name) ? raw->values.at(name) : otherwise;
  };
  options.job = text("--job", "");
  options.controller = text("--controller", "");
  options.host_name = text("--host-name", HostName());
  options.data_address = text("--data-address", "");
  options.agent_id = text("--agent-id", absl::BytesToHexString(RandomBytes(16)));
  options.socket_name = text("--socket", absl::StrCat("farandole-", absl::BytesToHexString(RandomBytes(16))));
  options.prefix_output = raw->Has("--prefix-output");
  if (options.controller.find(':') == std::string::npos) {
    return absl::InvalidArgumentError("--controller must be HOST:PORT");
  }
  for (const absl::Status& status :
       {CheckJobName(options.job), ReadNumbers(*raw, &options), ReadLocalSizes(*raw, &options)}) {
    if (!status.ok()) return status;
  }
  for (const absl::Status& status :
       {KeepFromWorkers("--ready-fd", options.ready_fd), KeepFromWorkers("--lifeline-fd", options.lifeline_fd),
        ReadSecurity(*raw, &options)}) {
    if (!status.ok()) return status;
  }
  for (char** variable = environ; *variable != nullptr; ++variable) options.environment.emplace_back(*variable);
  options.verbose = IsVerbose();
  return options;
}

}  // namespace farandole::agent::launch
