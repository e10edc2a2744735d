#include "controller/server.h"

#include <grpc/grpc.h>
#include <grpc/support/time.h>
#include <grpcpp/ext/proto_server_reflection_plugin.h>
#include <grpcpp/health_check_service_interface.h>
#include <grpcpp/server.h>
#include <grpcpp/server_builder.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/completion_thread.h"
#include "controller/coordination_service.h"
#include "controller/metrics_page.h"
#include "controller/metrics_server.h"
#include "controller/status_service.h"
#include "controller/wake_up.h"

namespace farandole {
namespace {

constexpr int kShutdownMs = 1000;

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

absl::StatusOr<std::unique_ptr<MetricsServer>> StartMetrics(const std::string& listen, EventLoop* loop, Hub* hub,
                                                            MetricsPage* page_of_hub) {
  absl::StatusOr<std::unique_ptr<MetricsServer>> metrics;
  const auto page = [hub, page_of_hub](std::function<void(std::string)> done) {
    hub->strand().Post([page_of_hub, done = std::move(done)] { done(page_of_hub->Text()); });
  };
  loop->RunHere([&] { metrics = MetricsServer::Start(listen, loop, page); });
  return metrics;
}

}  // namespace

struct Server::State {
  State(const ServerConfig& config, EventLoop* event_loop, const Log* log)
      : hub(config.hub, &Clock::Monotonic(), log, [this](TimePoint when) { wake_up.At(when); }),
        wake_up(event_loop, [this] { hub.strand().Post([this] { hub.Tick(); }); }),
        coordination(&hub, config.session),
        status(&hub),
        metrics_page(&hub) {}

  Hub hub;
  WakeUp wake_up;
  CoordinationService coordination;
  StatusService status;
  MetricsPage metrics_page;
  // Behind the services, whose calls end in it; gone before them.
  std::unique_ptr<CompletionThread> thread;
  std::unique_ptr<grpc::Server> server;
  std::unique_ptr<grpc::Server> health;
  std::unique_ptr<MetricsServer> metrics;
  int port = 0;
  int health_port = 0;
};

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

absl::StatusOr<std::unique_ptr<Server>> Server::Start(const ServerConfig& config, EventLoop* loop, const Log* log) {
  // gRPC's own health service wakes two threads of its own at every operation of the server that has it.
  grpc::EnableDefaultHealthCheckService(false);
  grpc::reflection::InitProtoReflectionServerBuilderPlugin();
  auto state = std::make_unique<State>(config, loop, log);
  grpc::ServerBuilder builder;
  SetKeepAlive(&builder);
  SetBounds(config, &builder);
  builder.AddListeningPort(
      config.listen,
      GuardedCredentials(config.tls,
                         [key = config.controller_key](const CallIdentity& call) { return CheckCall(call, key); }),
      &state->port);
  builder.RegisterService(&state->coordination);
  builder.RegisterService(&state->status);
  std::unique_ptr<grpc::ServerCompletionQueue> queue = builder.AddCompletionQueue();
  grpc::ServerCompletionQueue* const calls = queue.get();
  state->server = builder.BuildAndStart();
  if (state->server == nullptr || state->port == 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", config.listen, "; is the port taken?"));
  }
  state->thread = std::make_unique<CompletionThread>("farandole-grpc", std::move(queue));
  state->coordination.Serve(calls, state->thread.get());
  state->status.Serve(calls, state->thread.get());
  if (!config.health_listen.empty()) {
    grpc::EnableDefaultHealthCheckService(true);
    grpc::ServerBuilder health;
    SetBounds(config, &health);
    health.AddListeningPort(config.health_listen, GuardedCredentials(TlsFiles{}, CheckHealthCall), &state->health_port);
    state->health = health.BuildAndStart();
    if (state->health == nullptr || state->health_port == 0) {
      return absl::UnavailableError(absl::StrCat("cannot listen on ", config.health_listen, "; is the port taken?"));
    }
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

int Server::port() const { return state_->port; }
int Server::metrics_port() const { return state_->metrics == nullptr ? 0 : state_->metrics->port(); }
int Server::health_port() const { return state_->health_port; }

}  // namespace farandole
