#ifndef FARANDOLE_CONTROLLER_RPC_SERVER_H_
#define FARANDOLE_CONTROLLER_RPC_SERVER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/event_loop.h"
#include "controller/hub/hub.h"
#include "controller/hub/log.h"
#include "controller/rpc/session_call.h"
#include "controller/rpc/tls_files.h"
#include "controller/rpc/token_guard.h"
#include "controller/token/key_ring.h"

namespace farandole::controller::rpc {

struct ServerConfig {
  std::string listen;          // HOST:PORT
  std::string health_listen;   // "" = none
  std::string metrics_listen;  // "" = none
  // Whose tokens are accepted; may change at any time.
  std::shared_ptr<const token::KeyRing> keys;
  // Seconds since 1970, by which tokens end. From many threads.
  std::function<int64_t()> now_s;
  // What connections are encrypted with; may be exchanged. Whether there is TLS, and whether clients need certificates,
  // stays as it is at the start.
  std::shared_ptr<const TlsRing> tls = std::make_shared<TlsRing>(TlsFiles());
  hub::HubConfig hub;
  size_t message_bytes_max = 64 << 20;
  // Names and values of a call's metadata together.
  int header_bytes_max = 8 << 10;
  // Calls at a time on one connection: a stream and the Gets of the workers behind it.
  int calls_per_connection_max = 1024;
  SessionBounds session;
};

// The controller's network side: the services, the guard before them, the hub behind them. Timers run on a loop of the
// owner, which lives longer. Never in a static object: gRPC does not end in one.
class Server {
 public:
  // Listens. UNAVAILABLE: an address cannot be bound.
  static absl::StatusOr<std::unique_ptr<Server>> Start(const ServerConfig& config, EventLoop* loop,
                                                       const hub::Log* log);
  // The loop has stopped. Ends all streams with UNAVAILABLE, waits at most a second for calls to end, then cuts them
  // off.
  ~Server();

  // Any thread: `done` is called once, on whatever thread, as soon as no agent of any job is left: each has ended, or
  // has been silent for so long that it is given up. Not after this has gone.
  void WhenEmpty(std::function<void()> done);

  int port() const;
  int health_port() const;
  int metrics_port() const;

 private:
  struct State;
  static absl::Status OpenDoor(const ServerConfig& config, EventLoop* loop, const hub::Log* log, State* state);
  static absl::Status OpenHealth(const ServerConfig& config, EventLoop* loop, State* state);
  explicit Server(std::unique_ptr<State> state);
  const std::unique_ptr<State> state_;
};

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_SERVER_H_
