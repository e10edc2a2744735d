#include "controller/rpc/server.h"

#include <grpc/grpc.h>
#include <grpc/support/time.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/completion_thread.h"
#include "base/descriptor_limit.h"
#include "base/door_proof.h"
#include "base/front_door.h"
#include "controller/audit/audit_event.h"
#include "controller/metrics/metrics_page.h"
#include "controller/metrics/metrics_server.h"
#include "controller/rpc/coordination_service.h"
#include "controller/rpc/health_gate.h"
#include "controller/rpc/status_service.h"
#include "controller/rpc/wake_up.h"

namespace farandole::controller::rpc {
namespace {

using GrpcAcceptor = grpc::experimental::ExternalConnectionAcceptor;

constexpr int kShutdownMs = 1000;
// Between two sentences about descriptors.
constexpr int64_t kExhaustedSayMs = 60000;

// Finds half-open connections within 15 s, and lets agents do the same.
void SetKeepAlive(grpc::ServerBuilder* builder) {
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIME_MS, 10000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, 5000);
  builder->AddChannelArgument(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  builder->AddChannelArgument(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000);
}

// Two controllers on one port would share its connections between them.
void SetBounds(const ServerConfig& config, grpc::ServerBuilder* builder) {
  builder->SetMaxReceiveMessageSize(static_cast<int>(config.message_bytes_max));
  builder->SetMaxSendMessageSize(static_cast<int>(config.message_bytes_max));
  builder->AddChannelArgument(GRPC_ARG_MAX_METADATA_SIZE, config.header_bytes_max);
  builder->AddChannelArgument(GRPC_ARG_MAX_CONCURRENT_STREAMS, config.calls_per_connection_max);
  builder->AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
  // Small messages: measuring the bandwidth would add a ping and its answer to nearly every exchange.
  builder->AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
}

// Not on a port of gRPC's own, which would parse whatever anybody sends.
std::unique_ptr<GrpcAcceptor> AddAcceptor(std::shared_ptr<grpc::ServerCredentials> credentials,
                                          grpc::ServerBuilder* builder) {
  constexpr auto kFromFd = grpc::ServerBuilder::experimental_type::ExternalConnectionType::FROM_FD;
  return builder->experimental().AddExternalConnectionAcceptor(kFromFd, std::move(credentials));
}

// Nobody has looked yet at what a refused call says.
std::string Plain(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20 || c >= 0x7f; }, '?');
  return text;
}

// Of calls: those of a stream's business, of which there are many, are left out.
void AuditCall(const audit::Audit& audit, const CallIdentity& call, const absl::Status& answer) {
  const bool refused = !answer.ok();
  if (!refused && BelongsToStream(call.path)) return;
  audit::AuditEvent event;
  event.event = refused ? "call_refused" : "call_began";
  event.job = Plain(call.job);
  event.proven = !refused;
  event.method = Plain(call.path);
  event.why = std::string(answer.message());
  audit(event);
}

FrontDoor::OnDecided AuditDoor(const audit::Audit& audit) {
  return [audit](const FrontDoor::Decision& decision) {
    audit::AuditEvent event;
    event.event = decision.refusal == nullptr ? "connection_admitted" : "connection_refused";
    event.job = decision.job;
    event.proven = decision.refusal == nullptr;
    event.peer = decision.address;
    if (decision.refusal != nullptr) event.why = decision.refusal;
    audit(event);
  };
}

std::function<void(UniqueFd)> Into(GrpcAcceptor* inside) {
  return [inside](UniqueFd connection) {
    GrpcAcceptor::NewConnectionParameters parameters;
    parameters.fd = connection.Release();
    inside->HandleNewConnection(&parameters);
  };
}

absl::StatusOr<std::unique_ptr<metrics::MetricsServer>> StartMetrics(const std::string& listen, EventLoop* loop,
                                                                     hub::Hub* hub, metrics::MetricsPage* page_of_hub) {
  absl::StatusOr<std::unique_ptr<metrics::MetricsServer>> metrics;
  const auto page = [hub, page_of_hub](std::function<void(std::string)> done) {
    hub->strand().Post([page_of_hub, done = std::move(done)] { done(page_of_hub->Text()); });
  };
  loop->RunHere([&] { metrics = metrics::MetricsServer::Start(listen, loop, page); });
  return metrics;
}

}  // namespace

struct Server::State {
  State(const ServerConfig& config, EventLoop* event_loop, const hub::Log* log)
      : hub(config.hub, &Clock::Monotonic(), log, [this](TimePoint when) { wake_up.At(when); }),
        wake_up(event_loop, [this] { hub.strand().Post([this] { hub.Tick(); }); }),
        coordination(&hub, config.session),
        status(&hub),
        metrics_page(&hub) {}

  hub::Hub hub;
  WakeUp wake_up;
  CoordinationService coordination;
  StatusService status;
  metrics::MetricsPage metrics_page;
  // Of the servers, which are gone before them.
  std::shared_ptr<grpc::ServerCredentials> credentials, health_credentials;
  // Behind the services, whose calls end in it; gone before them.
  std::unique_ptr<CompletionThread> thread;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<grpc::Server> health;
  std::unique_ptr<metrics::MetricsServer> metrics;
  // Takes the connections that the door has let in.
  std::unique_ptr<GrpcAcceptor> inside;
  std::unique_ptr<FrontDoor> door;
  std::unique_ptr<GrpcAcceptor> health_inside;
  std::unique_ptr<HealthGate> health_gate;
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::Status Server::OpenDoor(const ServerConfig& config, EventLoop* loop, const hub::Log* log, State* state) {
  const auto check = [keys = config.keys, now_s = config.now_s](absl::string_view credentials) {
    return ProvesAnyToken(credentials, *keys->Get(), now_s());
  };
  const auto exhausted = [log, loop, next = loop->Now()](const std::string& why) mutable {
    if (loop->Now() < next) return;
    next = loop->Now().PlusMs(kExhaustedSayMs);
    log->Write(hub::LogLevel::kWarning,
               absl::StrCat(why, " (limit: ", DescriptorLimit(),
                            "); agents that are not connected wait; raise it with ulimit -Hn"));
  };
  absl::StatusOr<std::unique_ptr<FrontDoor>> door;
  loop->RunHere([&] {
    door = FrontDoor::OpenFromLoop(config.listen, loop, check, Into(state->inside.get()), exhausted,
                                   AuditDoor(config.hub.audit));
  });
  if (!door.ok()) return door.status();
  state->door = *std::move(door);
  return absl::OkStatus();
}

absl::Status Server::OpenHealth(const ServerConfig& config, EventLoop* loop, State* state) {
  grpc::EnableDefaultHealthCheckService(true);
  grpc::ServerBuilder builder;
  SetBounds(config, &builder);
  state->health_credentials = GuardedCredentials(std::make_shared<TlsRing>(TlsFiles()), CheckHealthCall);
  state->health_inside = AddAcceptor(state->health_credentials, &builder);
  state->health = builder.BuildAndStart();
  if (state->health == nullptr) return absl::UnavailableError("gRPC cannot start its server for health checks");
  absl::StatusOr<std::unique_ptr<HealthGate>> gate;
  loop->RunHere([&] { gate = HealthGate::Open(config.health_listen, loop, Into(state->health_inside.get())); });
  if (!gate.ok()) return gate.status();
  state->health_gate = *std::move(gate);
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config, EventLoop* loop,
                                                      const hub::Log* log) {
  // gRPC's own health service wakes two threads of its own at every operation of the server that has it.
  grpc::EnableDefaultHealthCheckService(false);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto state = std::make_unique<State>(config, loop, log);
  grpc::ServerBuilder builder;
  SetKeepAlive(&builder);
  SetBounds(config, &builder);
  const bool by_certificate = !config.tls->Get()->client_roots.empty();
  const auto check = [keys = config.keys, now_s = config.now_s, by_certificate,
                      audit = config.hub.audit](const CallIdentity& call) {
    absl::Status answer = CheckCall(call, *keys->Get(), now_s(), by_certificate);
    AuditCall(audit, call, answer);
    return answer;
  };
  state->credentials = GuardedCredentials(config.tls, check);
  state->inside = AddAcceptor(state->credentials, &builder);
  builder.RegisterService(&state->coordination);
  builder.RegisterService(&state->status);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  grpc::ServerCompletionQueue* const calls = queue.get();
  state->server = builder.BuildAndStart();
  if (state->server == nullptr) return absl::UnavailableError("gRPC cannot start its server");
  state->thread = std::make_unique<CompletionThread>("farandole-grpc", std::move(queue));
  state->coordination.Serve(calls, state->thread.get());
  state->status.Serve(calls, state->thread.get());
  const absl::Status opened = OpenDoor(config, loop, log, state.get());
  if (!opened.ok()) return opened;
  if (!config.health_listen.empty()) {
    const absl::Status open = OpenHealth(config, loop, state.get());
    if (!open.ok()) return open;
  }
  if (!config.metrics_listen.empty()) {
    auto metrics = StartMetrics(config.metrics_listen, loop, &state->hub, &state->metrics_page);
    if (!metrics.ok()) return metrics.status();
    state->metrics = *std::move(metrics);
  }
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::~Server() {
  state_->metrics = nullptr;
  state_->door = nullptr;
  state_->health_gate = nullptr;
  // Another thread may be the one that runs it; what it answers must have been answered when the thread goes.
  absl::Notification answered;
  state_->hub.strand().Post([this, &answered] {
    state_->hub.Shutdown();
    answered.Notify();
  });
  answered.WaitForNotification();
  const auto deadline = gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(kShutdownMs, GPR_TIMESPAN));
  if (state_->health != nullptr) state_->health->Shutdown(deadline);
  state_->server->Shutdown(deadline);
  state_->thread = nullptr;
}

void Server::WhenEmpty(std::function<void()> done) {
  state_->hub.strand().Post([hub = &state_->hub, done = std::move(done)] { hub->WhenEmpty(done); });
}

int Server::port() const { return state_->door->port(); }
int Server::metrics_port() const { return state_->metrics == nullptr ? 0 : state_->metrics->port(); }
int Server::health_port() const { return state_->health_gate == nullptr ? 0 : state_->health_gate->port(); }

}  // namespace farandole::controller::rpc
