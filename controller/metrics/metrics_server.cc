#include "controller/metrics/metrics_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/tcp_listen.h"

namespace farandole::controller::metrics {
namespace {

constexpr size_t kConnectionsMax = 16;
constexpr size_t kRequestBytesMax = 4096;
constexpr int64_t kDeadlineMs = 5000;

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& listen, EventLoop* loop,
                                                                    Page page) {
  absl::StatusOr<UniqueFd> fd = ListenTcp(listen);
  if (!fd.ok()) return fd.status();
  const int port = PortOf(fd->get());
  return std::unique_ptr<MetricsServer>(new MetricsServer(*std::move(fd), port, loop, std::move(page)));
}

MetricsServer::MetricsServer(UniqueFd socket, int port, EventLoop* loop, Page page)
    : socket_(std::move(socket)),
      port_(port),
      loop_(loop),
      page_(std::move(page)),
      listener_(loop, [this](UniqueFd connection) { Welcome(std::move(connection)); }) {
  listener_.StartFromLoop(socket_.get());
}

MetricsServer::~MetricsServer() {
  listener_.StopFromLoop();
  while (!connections_.empty()) Close(connections_.begin()->first);
}

void MetricsServer::Welcome(UniqueFd socket) {
  if (connections_.size() >= kConnectionsMax) Close(connections_.begin()->first);
  const uint64_t id = next_id_++;
  Connection& connection = connections_[id];
  connection.fd = std::move(socket);
  connection.deadline = loop_->AddTimerFromLoop(loop_->Now().PlusMs(kDeadlineMs), [this, id] { Close(id); });
  loop_->AddFdFromLoop(connection.fd.get(), EPOLLIN, [this, id](uint32_t events) { Ready(id, events); });
}

void MetricsServer::Ready(uint64_t id, uint32_t events) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  if ((events & (EPOLLERR | EPOLLHUP)) != 0) return Close(id);
  if ((events & EPOLLOUT) != 0) return Write(id, &it->second);
  Read(id, &it->second);
}

void MetricsServer::Read(uint64_t id, Connection* connection) {
  char buffer[1024];
  const ssize_t n = recv(connection->fd.get(), buffer, sizeof buffer, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return Close(id);
  connection->in.append(buffer, n);
  if (connection->in.size() > kRequestBytesMax) return Reply(id, "413 Content Too Large", "");
  // The head ends with an empty line.
  if (absl::StrContains(connection->in, "\r\n\r\n") || absl::StrContains(connection->in, "\n\n")) {
    Answer(id, connection);
  }
}

void MetricsServer::Answer(uint64_t id, Connection* connection) {
  if (connection->answered) return;
  connection->answered = true;
  // Nothing more is read; the connection may still break.
  loop_->ModifyFdFromLoop(connection->fd.get(), 0);
  const absl::string_view request = connection->in;
  if (!absl::StartsWith(request, "GET ")) return Reply(id, "405 Method Not Allowed", "");
  if (!absl::StartsWith(request, "GET /metrics ") && !absl::StartsWith(request, "GET /metrics?")) {
    return Reply(id, "404 Not Found", "this port answers GET /metrics only\n");
  }
  page_([this, id, alive = std::weak_ptr<bool>(alive_), loop = loop_](std::string page) {
    loop->Post([this, id, alive, page = std::move(page)] {
      if (alive.lock() != nullptr) Reply(id, "200 OK", page);
    });
  });
}

void MetricsServer::Reply(uint64_t id, const std::string& status, const std::string& body) {
  const auto it = connections_.find(id);
  if (it == connections_.end() || !it->second.out.empty()) return;
  Connection& connection = it->second;
  connection.answered = true;
  connection.out =
      absl::StrCat("HTTP/1.0 ", status,
                   "\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: ", body.size(),
                   "\r\nConnection: close\r\n\r\n", body);
  loop_->ModifyFdFromLoop(connection.fd.get(), EPOLLOUT);
}

void MetricsServer::Write(uint64_t id, Connection* connection) {
  const absl::string_view rest = absl::string_view(connection->out).substr(connection->sent);
  const ssize_t n = send(connection->fd.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n < 0) return Close(id);
  connection->sent += n;
  if (connection->sent == connection->out.size()) Close(id);
}

void MetricsServer::Close(uint64_t id) {
  const auto it = connections_.find(id);
  if (it == connections_.end()) return;
  loop_->CancelTimerFromLoop(it->second.deadline);
  loop_->RemoveFdFromLoop(it->second.fd.get());
  connections_.erase(it);
}

}  // namespace farandole::controller::metrics
