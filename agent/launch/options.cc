#include "agent/launch/options.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "agent/launch/pod_place.h"
#include "base/address.h"
#include "base/auth.h"
#include "base/job_name.h"
#include "base/read_file.h"
#include "proto/codec/schema.h"
#include "proto/codec/utf8.h"
#include "proto/version.h"

namespace farandole::agent::launch {
namespace {

constexpr int32_t kSizeMax = 65536;
constexpr double kGraceSecondsMax = 86400;

// All members are told it, and it is never cut: what no message can hold is refused here.
absl::Status CheckName(const char* option, const std::string& name) {
  if (!name.empty() && name.size() <= kNameBytesMax && IsUtf8(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(option, " must be text in UTF-8 of 1 to ", kNameBytesMax, " bytes"));
}

// A pod of an elastic job may be any of them: how many there are is said when they have met.
absl::Status ReadElastic(CommandLine* line, AgentOptions* options) {
  options->local_size = 1;
  line->Number("--local-size", 1, kSizeMax, &options->local_size);
  line->Number("--min-size", 1, kSizeMax, &options->min_size);
  if (!line->Has("--size")) return absl::InvalidArgumentError("--size is missing: how many processes begin");
  line->Number("--size", 1, kSizeMax, &options->size);
  line->Number("--max-size", 1, kSizeMax, &options->max_size);
  line->Text("--run", &options->run);
  double seconds = static_cast<double>(options->leave_ms) / 1000;
  line->Number("--leave-seconds", 0.0, kGraceSecondsMax, &seconds);
  options->leave_ms = static_cast<int64_t>(seconds * 1000);
  if (!line->status().ok()) return line->status();
  const bool fits =
      options->min_size <= options->size && (options->max_size == 0 || options->size <= options->max_size);
  if (fits) return options->run.empty() ? absl::OkStatus() : CheckName("--run", options->run);
  const std::string most = options->max_size == 0 ? "" : absl::StrCat(", --max-size is ", options->max_size);
  return absl::InvalidArgumentError(
      absl::StrCat("--min-size is ", options->min_size, ", --size is ", options->size, most, ": they must not fall"));
}

// This host is a pod, all of which have as many ranks.
absl::Status ReadPodPlace(CommandLine* line, AgentOptions* options) {
  for (const char* name : {"--first-rank", "--local-sizes"}) {
    if (line->Has(name)) return absl::InvalidArgumentError(absl::StrCat("--pod and ", name, " exclude each other"));
  }
  if (line->Has("--min-size")) return ReadElastic(line, options);
  const absl::StatusOr<PodPlace> place = FindPodPlace([](const char* name) { return std::getenv(name); });
  if (!place.ok()) return absl::InvalidArgumentError(place.status().message());
  options->local_size = 1;
  line->Number("--local-size", 1, kSizeMax, &options->local_size);
  const int64_t said = int64_t{place->pods} * options->local_size;
  if (!line->Has("--size") && said == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("--size is missing: ", place->said_by, " says which pod this is, but not how many there are"));
  }
  options->size = static_cast<int32_t>(std::min<int64_t>(said, kSizeMax));
  line->Number("--size", 1, kSizeMax, &options->size);
  if (!line->status().ok()) return line->status();
  const int64_t first = int64_t{place->index} * options->local_size;
  if ((said != 0 && said != options->size) || first + options->local_size > options->size) {
    return absl::InvalidArgumentError(absl::StrCat(
        place->said_by, " says that this is pod ", place->index, said == 0 ? "" : absl::StrCat(" of ", place->pods),
        ", which with ", options->local_size, " ranks in each does not fit into a job of size ", options->size));
  }
  options->first_rank = static_cast<int32_t>(first);
  return absl::OkStatus();
}

absl::Status ReadNumbers(CommandLine* line, AgentOptions* options) {
  options->pod = line->Has("--pod");
  for (const char* name : {"--min-size", "--max-size", "--run", "--leave-seconds"}) {
    if (!line->Has(name) || (options->pod && line->Has("--min-size"))) continue;
    return absl::InvalidArgumentError(absl::StrCat(name, " goes with --pod and --min-size"));
  }
  if (options->pod) {
    const absl::Status status = ReadPodPlace(line, options);
    if (!status.ok()) return status;
  } else {
    if (!line->Has("--size")) return absl::InvalidArgumentError("--size is missing");
    line->Number("--size", 1, kSizeMax, &options->size);
    line->Number("--first-rank", 0, options->size - 1, &options->first_rank);
    options->local_size = options->size;
    line->Number("--local-size", 1, kSizeMax, &options->local_size);
  }
  double seconds = static_cast<double>(options->grace_ms) / 1000;
  line->Number("--grace-seconds", 0.0, kGraceSecondsMax, &seconds);
  options->grace_ms = static_cast<int64_t>(seconds * 1000);
  if (!line->status().ok()) return line->status();
  // Of an elastic job there may come more than it begins with.
  if (options->min_size == 0 && options->local_size > options->size - options->first_rank) {
    return absl::InvalidArgumentError(absl::StrCat("ranks ", options->first_rank, " to ",
                                                   options->first_rank + options->local_size - 1,
                                                   " do not fit into a job of size ", options->size));
  }
  return absl::OkStatus();
}

absl::Status CheckJobName(const std::string& job) {
  if (IsJobName(job)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("--job must be ", kJobNameRule, ", not '", job, "'"));
}

// Numbers of ranks of all hosts, in the order of ranks; this one is where its first rank says.
absl::Status ReadLocalSizes(const CommandLine& line, AgentOptions* options) {
  if (!line.Has("--local-sizes")) return absl::OkStatus();
  std::string list;
  line.Text("--local-sizes", &list);
  int64_t ranks = 0;
  bool found = false;
  for (absl::string_view part : absl::StrSplit(list, ',')) {
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
  return absl::InvalidArgumentError(absl::StrCat("--local-sizes ", list, " does not fit ranks ", options->first_rank,
                                                 " to ", options->first_rank + options->local_size - 1, " of ",
                                                 options->size));
}

absl::Status ReadToken(const CommandLine& line, int token_fd, AgentOptions* options) {
  if (line.Has("--token-fd") == line.Has("--token-file")) {
    return absl::InvalidArgumentError("exactly one of --token-fd and --token-file is needed");
  }
  line.Text("--token-file", &options->token_file);
  absl::StatusOr<std::string> token = token_fd >= 0 ? ReadSecretFd(token_fd) : ReadSecretFile(options->token_file);
  if (!token.ok()) return absl::InvalidArgumentError(token.status().message());
  if (!IsTokenText(*token)) return absl::InvalidArgumentError("the token holds characters that no token has");
  options->token = *token;
  return absl::OkStatus();
}

// Its own certificate and key.
absl::Status ReadCertificate(const CommandLine& line, AgentOptions* options) {
  if (!line.Has("--tls-cert") && !line.Has("--tls-key")) return absl::OkStatus();
  if (!line.Has("--tls-cert") || !line.Has("--tls-key") || !line.Has("--tls-ca")) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key go together, and with --tls-ca");
  }
  line.Text("--tls-cert", &options->tls_cert_file);
  line.Text("--tls-key", &options->tls_key_file);
  options->tls_cert_pem = ReadFile(options->tls_cert_file);
  if (options->tls_cert_pem.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", options->tls_cert_file));
  }
  absl::StatusOr<std::string> key = ReadSecretFile(options->tls_key_file);
  if (!key.ok()) return absl::InvalidArgumentError(key.status().message());
  options->tls_key_pem = *std::move(key);
  return absl::OkStatus();
}

absl::Status ReadTls(const CommandLine& line, int tls_pinned_fd, AgentOptions* options) {
  const absl::Status own = ReadCertificate(line, options);
  if (!own.ok()) return own;
  options->tls_pinned = line.Has("--tls-pinned-fd") || line.Has("--tls-pinned");
  if (options->tls_pinned) {
    const bool both = line.Has("--tls-pinned-fd") && line.Has("--tls-pinned");
    if (both || line.Has("--tls-ca") || line.Has("--insecure")) {
      return absl::InvalidArgumentError("--tls-pinned, --tls-pinned-fd, --tls-ca and --insecure exclude each other");
    }
    std::string path;
    line.Text("--tls-pinned", &path);
    absl::StatusOr<std::string> certificate = path.empty() ? ReadSecretFd(tls_pinned_fd) : ReadSecretFile(path);
    if (!certificate.ok()) return absl::InvalidArgumentError(certificate.status().message());
    options->tls_ca_pem = *certificate;
    return absl::OkStatus();
  }
  if (line.Has("--tls-ca") && line.Has("--insecure")) {
    return absl::InvalidArgumentError("--tls-ca and --insecure exclude each other");
  }
  if (line.Has("--tls-ca")) {
    line.Text("--tls-ca", &options->tls_ca_file);
    options->tls_ca_pem = ReadFile(options->tls_ca_file);
    if (options->tls_ca_pem.empty()) {
      return absl::InvalidArgumentError(absl::StrCat("cannot read ", options->tls_ca_file));
    }
  } else if (!line.Has("--insecure") && !IsLoopback(options->controller)) {
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

const Program& AgentProgram() {
  static const Program program = {
      "farandole-agent",
      kVersion,
      "--job NAME --controller HOST:PORT (--token-fd N | --token-file FILE) (--size N | --pod) [options]\n"
      "         [-- COMMAND ARGUMENT...]",
      "Speaks to the controller for the workers of this host. With a command it starts L of them, ranks R to R+L-1,\n"
      "and ends with them; without, it serves workers that others start until SIGTERM. With --launcher-fd the\n"
      "workers live on when it is killed, and another one with the same ID and socket takes over.\n"
      "With --pod it ends with code 75 when the job has failed elsewhere, so that another attempt may help. With\n"
      "--min-size, too, pods may come and go while the others train on; after SIGTERM its workers leave, and it ends\n"
      "with code 75.\n",
      {
          {"--job", "NAME", "the job that this host takes part in"},
          {"--controller", "HOST:PORT", "where its controller listens"},
          {"--token-fd", "N", "read the job's token from this descriptor"},
          {"--token-file", "FILE", "read it from this file of mode 0600"},
          {"--size", "N", "ranks of the whole job"},
          {"--first-rank", "R", "the first rank of this host (0)"},
          {"--local-size", "L", "ranks of this host (those of the whole job; with --pod 1)"},
          {"--local-sizes", "L,L...", "ranks of all hosts, in the order of ranks (as many on each as here)"},
          {"--pod", "", "take the first rank, and the size where it is not given, from the variables of Kubernetes"},
          {"--min-size", "N",
           "with --pod: the job is elastic, and goes on with as few ranks; --size says how many begin"},
          {"--max-size", "N", "the most ranks that an elastic job may have (no bound)"},
          {"--run", "ID", "the same for all pods of one run of an elastic job, and another one for the next"},
          {"--leave-seconds", "S", "after SIGTERM, for workers of an elastic job to leave at their next commit (25)"},
          {"--host-name", "NAME", "how this host is called in what is said (its own name)"},
          {"--data-address", "ADDRESS",
           "where workers listen for those of other hosts (the one towards the controller)"},
          {"--socket", "NAME", "abstract Unix socket for the workers (a random one)"},
          {"--agent-id", "ID", "by which the controller knows the agent (a random one)"},
          {"--ready-fd", "N", "write the socket's name and a newline here when listening, then close it"},
          {"--lifeline-fd", "N", "end when this descriptor reads end of file"},
          {"--launcher-fd", "N", "a socket to the launcher, which keeps what outlives an agent"},
          {"--tls-ca", "FILE", "certificates that may have signed the controller's (PEM)"},
          {"--tls-cert", "FILE", "certificate of this end, where the controller wants one (PEM)"},
          {"--tls-key", "FILE", "its private key (PEM), of mode 0600; the three are read again for each connection"},
          {"--tls-pinned", "FILE", "the certificate of a controller with --tls-pinned, in a file of mode 0600"},
          {"--tls-pinned-fd", "N", "read it from this descriptor"},
          {"--insecure", "", "send the token beyond loopback without TLS"},
          {"--prefix-output", "", "begin each line of a worker's output with its rank"},
          {"--grace-seconds", "S", "after a worker has failed, for the others to end by themselves (3)"},
      },
      true};
  return program;
}

absl::StatusOr<AgentOptions> ParseAgentOptions(const std::vector<std::string>& arguments) {
  absl::StatusOr<CommandLine> line = CommandLine::Split(AgentProgram(), arguments);
  if (!line.ok()) return line.status();
  AgentOptions options;
  options.command = line->command();
  options.host_name = HostName();
  options.agent_id = absl::BytesToHexString(RandomBytes(16));
  options.socket_name = absl::StrCat("farandole-", absl::BytesToHexString(RandomBytes(16)));
  int token_fd = -1, tls_pinned_fd = -1;
  line->Address("--controller", &options.controller);
  line->Text("--job", &options.job);
  line->Text("--host-name", &options.host_name);
  line->Text("--data-address", &options.data_address);
  line->Text("--agent-id", &options.agent_id);
  line->Text("--socket", &options.socket_name);
  line->Descriptor("--ready-fd", &options.ready_fd);
  line->Descriptor("--lifeline-fd", &options.lifeline_fd);
  line->Descriptor("--launcher-fd", &options.launcher_fd);
  line->Descriptor("--token-fd", &token_fd);
  line->Descriptor("--tls-pinned-fd", &tls_pinned_fd);
  options.prefix_output = line->Has("--prefix-output");
  if (options.controller.empty()) line->Refuse("--controller", "HOST:PORT");
  for (const absl::Status& status :
       {line->status(), CheckJobName(options.job), CheckName("--host-name", options.host_name),
        CheckName("--agent-id", options.agent_id), ReadNumbers(&*line, &options), ReadLocalSizes(*line, &options)}) {
    if (!status.ok()) return status;
  }
  for (const absl::Status& status :
       {KeepFromWorkers("--ready-fd", options.ready_fd), KeepFromWorkers("--lifeline-fd", options.lifeline_fd),
        ReadToken(*line, token_fd, &options), ReadTls(*line, tls_pinned_fd, &options)}) {
    if (!status.ok()) return status;
  }
  for (char** variable = environ; *variable != nullptr; ++variable) options.environment.emplace_back(*variable);
  options.verbose = IsVerbose();
  return options;
}

}  // namespace farandole::agent::launch
