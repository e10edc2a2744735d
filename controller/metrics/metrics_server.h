#ifndef FARANDOLE_CONTROLLER_METRICS_METRICS_SERVER_H_
#define FARANDOLE_CONTROLLER_METRICS_METRICS_SERVER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/event_loop.h"
#include "base/listener.h"
#include "base/unique_fd.h"

namespace farandole::controller::metrics {

// Answers GET /metrics, and nothing else, over HTTP/1.0: one request a connection. Bounded: 16 connections at a time,
// a further one takes the place of the oldest; 4 KiB a request; 5 s from the connection to its end. On the owner's
// loop, which has stopped or not begun when this is destroyed.
class MetricsServer {
 public:
  // Hands the page to `done`, any thread, once.
  using Page = std::function<void(std::function<void(std::string)> done)>;

  // `listen`: HOST:PORT, HOST a name or an address. UNAVAILABLE: cannot be bound. From the loop, or before it runs.
  static absl::StatusOr<std::unique_ptr<MetricsServer>> Start(const std::string& listen, EventLoop* loop, Page page);
  ~MetricsServer();

  int port() const { return port_; }

 private:
  struct Connection {
    UniqueFd fd;
    std::string in;
    std::string out;
    size_t sent = 0;
    bool answered = false;  // `out` is set, or about to be
    EventLoop::TimerId deadline = 0;
  };

  MetricsServer(UniqueFd socket, int port, EventLoop* loop, Page page);
  void Welcome(UniqueFd socket);
  void Ready(uint64_t id, uint32_t events);
  void Read(uint64_t id, Connection* connection);
  void Answer(uint64_t id, Connection* connection);
  void Reply(uint64_t id, const std::string& status, const std::string& body);
  void Write(uint64_t id, Connection* connection);
  void Close(uint64_t id);

  const UniqueFd socket_;
  const int port_;
  EventLoop* const loop_;
  const Page page_;
  Listener listener_;
  uint64_t next_id_ = 1;
  std::map<uint64_t, Connection> connections_;
  // Gone with this: a page that comes later finds nobody.
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

}  // namespace farandole::controller::metrics

#endif  // FARANDOLE_CONTROLLER_METRICS_METRICS_SERVER_H_
