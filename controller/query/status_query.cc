#include "controller/query/status_query.h"

#include <grpc/support/time.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/auth.h"
#include "base/door_proof.h"
#include "base/job_name.h"
#include "base/read_file.h"
#include "base/tls_name.h"
#include "controller/query/json_text.h"
#include "controller/rpc/token_guard.h"
#include "farandole/v1/status.grpc.pb.h"

namespace farandole::controller::query {

const char kQueryUsage[] =
    "usage: farandole-controller query --controller HOST:PORT --job JOB (--token-fd N | --token-file FILE) [options]\n"
    "  prints the status of a job as a line of JSON; exit code 3: no answer, 4: refused, 5: no such job\n"
    "  --token-fd N        read the token (member or observer) from this descriptor\n"
    "  --token-file FILE   read it from this file of mode 0600\n"
    "  --tls-ca FILE       certificates that may have signed the controller's (PEM)\n"
    "  --tls-pinned FILE   the certificate of a controller with --tls-pinned\n"
    "  --insecure          send the token beyond loopback without TLS\n"
    "  --timeout-ms N      how long to wait for an answer (3000)\n"
    "  --watch N           print again on each change, at most N times a second (1 to 10)\n";

namespace {

struct Raw {
  std::string token_fd, token_file, tls_ca, tls_pinned, timeout_ms, watch;
  bool insecure = false;
};

absl::Status SetValue(const std::string& name, const std::string& value, QueryOptions* options, Raw* raw) {
  std::string* const text = name == "--controller"   ? &options->controller
                            : name == "--job"        ? &options->job
                            : name == "--token-fd"   ? &raw->token_fd
                            : name == "--token-file" ? &raw->token_file
                            : name == "--tls-ca"     ? &raw->tls_ca
                            : name == "--tls-pinned" ? &raw->tls_pinned
                            : name == "--timeout-ms" ? &raw->timeout_ms
                            : name == "--watch"      ? &raw->watch
                                                     : nullptr;
  if (text == nullptr) return absl::InvalidArgumentError(absl::StrCat("unknown argument ", name));
  *text = value;
  return absl::OkStatus();
}

absl::Status Check(const Raw& raw, QueryOptions* options) {
  if (HostOf(options->controller).empty()) return absl::InvalidArgumentError("--controller wants HOST:PORT");
  if (!IsJobName(options->job)) return absl::InvalidArgumentError(absl::StrCat("--job must be ", kJobNameRule));
  if (!raw.tls_ca.empty() && !raw.tls_pinned.empty()) {
    return absl::InvalidArgumentError("--tls-ca and --tls-pinned exclude each other");
  }
  if (raw.tls_ca.empty() && raw.tls_pinned.empty() && !raw.insecure && !IsLoopback(options->controller)) {
    return absl::InvalidArgumentError(absl::StrCat(
        options->controller, " is beyond loopback: give --tls-ca, or say --insecure if the network can be trusted"));
  }
  if (!raw.timeout_ms.empty() && (!absl::SimpleAtoi(raw.timeout_ms, &options->timeout_ms) || options->timeout_ms < 1)) {
    return absl::InvalidArgumentError("--timeout-ms wants a positive number");
  }
  if (!raw.watch.empty() && (!absl::SimpleAtoi(raw.watch, &options->watch_per_second) ||
                             options->watch_per_second < 1 || options->watch_per_second > 10)) {
    return absl::InvalidArgumentError("--watch wants a number from 1 to 10");
  }
  return absl::OkStatus();
}

absl::Status ReadFiles(const Raw& raw, QueryOptions* options) {
  int fd = -1;
  if (raw.token_fd.empty() == raw.token_file.empty() ||
      (!raw.token_fd.empty() && (!absl::SimpleAtoi(raw.token_fd, &fd) || fd < 0))) {
    return absl::InvalidArgumentError("give the token with one of --token-fd and --token-file");
  }
  auto token = fd >= 0 ? ReadSecretFd(fd) : ReadSecretFile(raw.token_file);
  if (!token.ok()) return token.status();
  options->token = *std::move(token);
  options->tls_pinned = !raw.tls_pinned.empty();
  const std::string& path = options->tls_pinned ? raw.tls_pinned : raw.tls_ca;
  if (path.empty()) return absl::OkStatus();
  options->tls_ca_pem = ReadFile(path);
  if (options->tls_ca_pem.empty()) return absl::InvalidArgumentError(absl::StrCat("cannot read ", path));
  return absl::OkStatus();
}

std::shared_ptr<grpc::Channel> Dial(const QueryOptions& options) {
  grpc::ChannelArguments arguments;
  // Else http_proxy would capture even loopback.
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetString(kDoorServerArgument, options.controller);
  arguments.SetString(kDoorHeadersArgument, DoorHeader(options.job, options.token));
  arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 400);
  // Finds a controller that vanished without closing the connection; the server allows pings this often.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  // Tens of thousands of ranks.
  arguments.SetMaxReceiveMessageSize(64 << 20);
  std::shared_ptr<grpc::ChannelCredentials> credentials = grpc::InsecureChannelCredentials();
  if (!options.tls_ca_pem.empty()) {
    grpc::SslCredentialsOptions tls;
    tls.pem_root_certs = options.tls_ca_pem;
    credentials = grpc::SslCredentials(tls);
    if (options.tls_pinned) arguments.SetSslTargetNameOverride(kPinnedTlsName);
  }
  return grpc::CreateCustomChannel(options.controller, credentials, arguments);
}

void Prepare(const QueryOptions& options, grpc::ClientContext* context) {
  context->AddMetadata(rpc::kJobMetadata, options.job);
  context->AddMetadata("authorization", absl::StrCat("Bearer ", options.token));
}

// Waits for a controller that is not there yet, but not for one that refuses the token.
grpc::Status GetJob(const QueryOptions& options, grpc::Channel* channel, v1::Status::Stub* stub,
                    v1::JobStatus* status) {
  const gpr_timespec deadline =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(options.timeout_ms, GPR_TIMESPAN));
  const auto ask = [&] {
    grpc::ClientContext context;
    Prepare(options, &context);
    context.set_deadline(deadline);
    return stub->GetJob(&context, v1::GetJobRequest(), status);
  };
  const grpc::Status got = ask();
  const bool refused = IsDoorRefusal(got.error_message()) || IsProofFromElsewhere(got.error_message());
  const bool absent = got.error_code() == grpc::UNAVAILABLE && !refused;
  return absent && channel->WaitForConnected(deadline) ? ask() : got;
}

absl::Status Explain(const QueryOptions& options, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string& why = status.error_message();
  if (IsDoorRefusal(why)) return absl::UnauthenticatedError(kWrongToken);
  if (IsProofFromElsewhere(why)) return absl::UnavailableError(kProofFromElsewhere);
  switch (status.error_code()) {
    case grpc::UNAVAILABLE:
    case grpc::DEADLINE_EXCEEDED:
      return absl::UnavailableError(absl::StrCat("the controller at ", options.controller, " does not answer: ", why));
    case grpc::UNIMPLEMENTED:
      return absl::UnimplementedError(
          absl::StrCat("what listens at ", options.controller, " is no controller of this version: ", why));
    default:
      return absl::Status(static_cast<absl::StatusCode>(status.error_code()), why);
  }
}

}  // namespace

absl::StatusOr<QueryOptions> ParseQuery(const std::vector<std::string>& args) {
  QueryOptions options;
  Raw raw;
  for (size_t i = 0; i < args.size(); ++i) {
    if (args[i] == "--insecure") {
      raw.insecure = true;
      continue;
    }
    if (i + 1 == args.size()) {
      return absl::InvalidArgumentError(absl::StrCat("unknown argument, or one without its value: ", args[i]));
    }
    const absl::Status set = SetValue(args[i], args[i + 1], &options, &raw);
    if (!set.ok()) return set;
    ++i;
  }
  absl::Status status = Check(raw, &options);
  if (status.ok()) status = ReadFiles(raw, &options);
  if (!status.ok()) return status;
  return options;
}

absl::Status Query(const QueryOptions& options, const std::function<bool(const std::string&)>& line) {
  const auto channel = Dial(options);
  const auto stub = v1::Status::NewStub(channel);
  v1::JobStatus status;
  const grpc::Status got = GetJob(options, channel.get(), stub.get(), &status);
  if (!got.ok() || options.watch_per_second == 0) {
    if (got.ok()) line(JsonText(status));
    return Explain(options, got);
  }
  // The controller is there: from here on the watch may last.
  grpc::ClientContext context;
  Prepare(options, &context);
  v1::WatchRequest request;
  request.set_per_second_max(options.watch_per_second);
  const auto reader = stub->Watch(&context, request);
  while (reader->Read(&status)) {
    if (line(JsonText(status))) continue;
    context.TryCancel();
    reader->Finish();
    return absl::OkStatus();
  }
  return Explain(options, reader->Finish());
}

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  if (absl::IsUnavailable(status)) return 3;
  if (absl::IsUnauthenticated(status) || absl::IsResourceExhausted(status)) return 4;
  return absl::IsNotFound(status) ? 5 : 1;
}

}  // namespace farandole::controller::query
