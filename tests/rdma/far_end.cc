#include "tests/rdma/far_end.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/synchronization/notification.h"
#include "transport/tcp/transport.h"
#include "transport/verbs/transport.h"

namespace farandole::rdma {
namespace {

constexpr int64_t kDeadlineNs = int64_t{120} * 1000000000;

}  // namespace

void Fail(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  _exit(1);
}

int64_t NowNs() { return Clock::Monotonic().Now().ns(); }

TimePoint Deadline() { return TimePoint(NowNs() + kDeadlineNs); }

std::unique_ptr<transport::Transport> MakeTransport(const std::string& medium, const std::string& host) {
  if (medium == "tcp") return std::make_unique<transport::tcp::TcpTransport>(transport::tcp::TcpOptions{host});
  if (medium.rfind("verbs", 0) == 0) {
    transport::verbs::VerbsOptions options;
    if (medium.size() > 5) options.eager_bytes = std::strtoul(medium.c_str() + 6, nullptr, 10);
    options.listen_host = host;
    return std::make_unique<transport::verbs::VerbsTransport>(options);
  }
  Fail("there is no medium " + medium);
}

std::unique_ptr<transport::Channel> Meet(transport::Transport* transport, const char* address) {
  transport::Pairing pairing{"far end", "server", "client", "no secret"};
  if (address != nullptr) std::swap(pairing.self_id, pairing.peer_id);
  absl::Notification met;
  absl::StatusOr<std::unique_ptr<transport::Channel>> channel;
  const auto ready = [&](absl::StatusOr<std::unique_ptr<transport::Channel>> made) {
    channel = std::move(made);
    met.Notify();
  };
  if (address == nullptr) {
    const absl::StatusOr<std::string> own = transport->Listen();
    if (!own.ok()) Fail(own.status().ToString());
    std::printf("%s\n", own->c_str());
    std::fflush(stdout);
    transport->Accept(pairing, Deadline(), ready);
  } else {
    transport->Connect(address, pairing, Deadline(), ready);
  }
  met.WaitForNotification();
  if (!channel.ok()) Fail(channel.status().ToString());
  return *std::move(channel);
}

}  // namespace farandole::rdma
