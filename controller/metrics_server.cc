#include "controller/metrics_server.h"

#include <netdb.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace farandole {
namespace {

constexpr size_t kConnectionsMax = 16;
constexpr size_t kRequestBytesMax = 4096;
constexpr int64_t kDeadlineMs = 5000;

int PortOf(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&address)->sin6_port
                                             : reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

absl::StatusOr<UniqueFd> Listen(const std::string& listen_on) {
  const size_t colon = listen_on.rfind(':');
  std::string host = listen_on.substr(0, colon);
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  if (getaddrinfo(host.c_str(), listen_on.c_str() + colon + 1, &hints, &found) != 0) {
    return absl::UnavailableError(absl::StrCat("cannot listen on ", listen_on, ": no such address"));
  }
  UniqueFd fd(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int one = 1;
  setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  const bool bound = bind(fd.get(), found->ai_addr, found->ai_addrlen) == 0 && listen(fd.get(), 16) == 0;
  freeaddrinfo(found);
  if (!bound) return absl::UnavailableError(absl::StrCat("cannot listen on ", listen_on, "; is the port taken?"));
  return fd;
}

}  // namespace

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(const std::string& listen, EventLoop* loop,
                                                                    Page page) {
  absl::StatusOr<UniqueFd> fd = Listen(listen);
  if (!fd.ok()) return fd.status();
  const int port = PortOf(fd->get());
  return std::unique_ptr<MetricsServer>(new MetricsServer(*std::move(fd), port, loop, std::move(page)));
}

MetricsServer::MetricsServer(UniqueFd listener, int port, EventLoop* loop, Page page)
    : listener_(std::move(listener)), port_(port), loop_(loop), page_(std::move(page)) {
  loop_->AddFdFromLoop(listener_.get(), EPOLLIN, [this](uint32_t) { Accept(); });
}

MetricsServer::~MetricsServer() {
  while (!connections_.empty()) Close(connections_.begin()->first);
  loop_->RemoveFdFromLoop(listener_.get());
}

void MetricsServer::Accept() {
  UniqueFd fd(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!fd.valid() || connections_.size() >= kConnectionsMax) return;
  const uint64_t id = next_id_++;
  Connection& connection = connections_[id];
  connection.fd = std::move(fd);
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

}  // namespace farandole
