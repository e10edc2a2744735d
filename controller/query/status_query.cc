#include "controller/query/status_query.h"

#include <google/protobuf/message.h>
#include <google/protobuf/util/json_util.h>
#include <grpc/support/time.h>
#include <grpcpp/client_context.h>
#include <grpcpp/create_channel.h>

#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/address.h"
#include "base/auth.h"
#include "base/door_proof.h"
#include "base/job_name.h"
#include "base/read_file.h"
#include "base/tls_name.h"
#include "controller/rpc/token_guard.h"
#include "farandole/v1/status.grpc.pb.h"
#include "proto/version.h"

namespace farandole::controller::query {

namespace {

constexpr int64_t kTimeoutMsMax = 86400000;

absl::Status Check(const CommandLine& line, const QueryOptions& options) {
  if (options.controller.empty()) return absl::InvalidArgumentError("--controller must be HOST:PORT");
  if (!IsJobName(options.job) && !IsAllJobs(options.job)) {
    return absl::InvalidArgumentError(absl::StrCat("--job must be ", kJobNameRule, ", or NAMESPACE.*"));
  }
  if (IsAllJobs(options.job) && line.Has("--watch")) {
    return absl::InvalidArgumentError("--watch is for one job");
  }
  if (line.Has("--tls-ca") && line.Has("--tls-pinned")) {
    return absl::InvalidArgumentError("--tls-ca and --tls-pinned exclude each other");
  }
  if (!line.Has("--tls-ca") && !line.Has("--tls-pinned") && !line.Has("--insecure") &&
      !IsLoopback(options.controller)) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.controller, " is beyond loopback: give --tls-ca, or say --insecure if the network can be trusted"));
  }
  if (line.Has("--tls-cert") != line.Has("--tls-key") || (line.Has("--tls-cert") && !line.Has("--tls-ca"))) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key go together, and with --tls-ca");
  }
  if (line.Has("--token-fd") == line.Has("--token-file")) {
    return absl::InvalidArgumentError("give the token with one of --token-fd and --token-file");
  }
  return absl::OkStatus();
}

absl::Status ReadFiles(const CommandLine& line, int token_fd, QueryOptions* options) {
  std::string token_file, certificates;
  line.Text("--token-file", &token_file);
  auto token = token_fd >= 0 ? ReadSecretFd(token_fd) : ReadSecretFile(token_file);
  if (!token.ok()) return token.status();
  options->token = *std::move(token);
  options->tls_pinned = line.Has("--tls-pinned");
  if (!options->tls_pinned && !line.Has("--tls-ca")) return absl::OkStatus();
  line.Text(options->tls_pinned ? "--tls-pinned" : "--tls-ca", &certificates);
  options->tls_ca_pem = ReadFile(certificates);
  if (options->tls_ca_pem.empty()) return absl::InvalidArgumentError(absl::StrCat("cannot read ", certificates));
  if (!line.Has("--tls-cert")) return absl::OkStatus();
  std::string certificate, key_file;
  line.Text("--tls-cert", &certificate);
  line.Text("--tls-key", &key_file);
  options->tls_cert_pem = ReadFile(certificate);
  if (options->tls_cert_pem.empty()) return absl::InvalidArgumentError(absl::StrCat("cannot read ", certificate));
  auto key = ReadSecretFile(key_file);
  if (!key.ok()) return key.status();
  options->tls_key_pem = *std::move(key);
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
    tls.pem_cert_chain = options.tls_cert_pem;
    tls.pem_private_key = options.tls_key_pem;
    credentials = grpc::SslCredentials(tls);
    if (options.tls_pinned) arguments.SetSslTargetNameOverride(kPinnedTlsName);
  }
  return grpc::CreateCustomChannel(options.controller, credentials, arguments);
}

void Prepare(const QueryOptions& options, grpc::ClientContext* context) {
  context->AddMetadata(rpc::kJobMetadata, options.job);
  context->AddMetadata("authorization", absl::StrCat("Bearer ", options.token));
}

// What `call` answers. Waits for a controller that is not there yet, but not for one that refuses the token.
grpc::Status Ask(const QueryOptions& options, grpc::Channel* channel,
                 const std::function<grpc::Status(grpc::ClientContext*)>& call) {
  const gpr_timespec deadline =
      gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(options.timeout_ms, GPR_TIMESPAN));
  const auto ask = [&] {
    grpc::ClientContext context;
    Prepare(options, &context);
    context.set_deadline(deadline);
    return call(&context);
  };
  const grpc::Status got = ask();
  const bool refused = !DoorAnswer(got.error_message(), options.token).ok();
  const bool absent = got.error_code() == grpc::UNAVAILABLE && !refused;
  return absent && channel->WaitForConnected(deadline) ? ask() : got;
}

absl::Status Explain(const QueryOptions& options, const grpc::Status& status) {
  if (status.ok()) return absl::OkStatus();
  const std::string& why = status.error_message();
  const absl::Status at_the_door = DoorAnswer(why, options.token);
  if (absl::IsPermissionDenied(at_the_door)) return absl::UnavailableError(at_the_door.message());
  if (!at_the_door.ok()) return at_the_door;
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

// One line as protobuf maps messages to JSON, fields that have their defaults included.
absl::StatusOr<std::string> Json(const google::protobuf::Message& answer) {
  google::protobuf::util::JsonPrintOptions options;
  options.always_print_primitive_fields = true;
  std::string text;
  const auto made = google::protobuf::util::MessageToJsonString(answer, &text, options);
  if (!made.ok()) return absl::InternalError(absl::StrCat("the answer does not become JSON: ", made.ToString()));
  return text;
}

}  // namespace

const Program& QueryProgram() {
  static const Program program = {
      "farandole-controller query",
      kVersion,
      "--controller HOST:PORT --job JOB (--token-fd N | --token-file FILE) [options]",
      "Prints the status of a job as a line of proto3 JSON; exit code 3: no answer, 4: refused, 5: no such job.\n"
      "Of NAMESPACE.*, with a token of that namespace: its jobs in short, a line for each.\n",
      {
          {"--controller", "HOST:PORT", "whom to ask"},
          {"--job", "JOB", "of which job, or NAMESPACE.*"},
          {"--token-fd", "N", "read the token (member or observer) from this descriptor"},
          {"--token-file", "FILE", "read it from this file of mode 0600"},
          {"--tls-ca", "FILE", "certificates that may have signed the controller's (PEM)"},
          {"--tls-cert", "FILE", "certificate of this end, where the controller wants one (PEM)"},
          {"--tls-key", "FILE", "its private key (PEM), of mode 0600"},
          {"--tls-pinned", "FILE", "the certificate of a controller with --tls-pinned"},
          {"--insecure", "", "send the token beyond loopback without TLS"},
          {"--timeout-ms", "N", "how long to wait for an answer (3000)"},
          {"--watch", "N", "print again on each change, at most N times a second (1 to 10)"},
      }};
  return program;
}

absl::StatusOr<QueryOptions> ParseQuery(const std::vector<std::string>& args) {
  QueryOptions options;
  absl::StatusOr<CommandLine> line = CommandLine::Split(QueryProgram(), args);
  if (!line.ok()) return line.status();
  int token_fd = -1;
  line->Address("--controller", &options.controller);
  line->Text("--job", &options.job);
  line->Descriptor("--token-fd", &token_fd);
  line->Number<int64_t>("--timeout-ms", 1, kTimeoutMsMax, &options.timeout_ms);
  line->Number<uint32_t>("--watch", 1, 10, &options.watch_per_second);
  absl::Status status = line->status();
  if (status.ok()) status = Check(*line, options);
  if (status.ok()) status = ReadFiles(*line, token_fd, &options);
  if (!status.ok()) return status;
  return options;
}

namespace {

absl::Status List(const QueryOptions& options, grpc::Channel* channel, v1::Status::Stub* stub,
                  const std::function<bool(const std::string&)>& line) {
  v1::ListJobsReply reply;
  const grpc::Status got = Ask(options, channel, [&](grpc::ClientContext* context) {
    return stub->ListJobs(context, v1::ListJobsRequest(), &reply);
  });
  if (!got.ok()) return Explain(options, got);
  for (const v1::JobSummary& job : reply.jobs()) {
    const auto text = Json(job);
    if (!text.ok() || !line(*text)) return text.status();
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Query(const QueryOptions& options, const std::function<bool(const std::string&)>& line) {
  const auto channel = Dial(options);
  const auto stub = v1::Status::NewStub(channel);
  if (IsAllJobs(options.job)) return List(options, channel.get(), stub.get(), line);
  v1::JobStatus status;
  const grpc::Status got = Ask(options, channel.get(), [&](grpc::ClientContext* context) {
    return stub->GetJob(context, v1::GetJobRequest(), &status);
  });
  if (!got.ok()) return Explain(options, got);
  if (options.watch_per_second == 0) {
    const auto text = Json(status);
    if (text.ok()) line(*text);
    return text.status();
  }
  // The controller is there: from here on the watch may last.
  grpc::ClientContext context;
  Prepare(options, &context);
  v1::WatchRequest request;
  request.set_per_second_max(options.watch_per_second);
  const auto reader = stub->Watch(&context, request);
  while (reader->Read(&status)) {
    const auto text = Json(status);
    if (text.ok() && line(*text)) continue;
    context.TryCancel();
    reader->Finish();
    return text.status();
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
