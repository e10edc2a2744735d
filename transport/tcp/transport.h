#ifndef FARANDOLE_TRANSPORT_TCP_TRANSPORT_H_
#define FARANDOLE_TRANSPORT_TCP_TRANSPORT_H_

#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "base/event_loop.h"
#include "transport/tcp/acceptor.h"
#include "transport/tcp/dialer.h"
#include "transport/transport.h"

namespace farandole::transport::tcp {

struct TcpOptions {
  // Numeric IPv4 or IPv6 address of the interface to listen on; peers connect to it. Not a wildcard.
  std::string listen_host = "127.0.0.1";
};

// Channels over TCP sockets. One thread, "fdl-tcp", which rests while another one drives. Data is not encrypted; ends
// are authenticated when they meet.
class TcpTransport final : public Transport {
 public:
  explicit TcpTransport(TcpOptions options = {});
  ~TcpTransport() override;

  const char* name() const override { return "tcp"; }
  absl::Status Usable() const override;
  absl::StatusOr<std::string> Listen() override;
  absl::StatusOr<std::unique_ptr<Memory>> Register(void* data, size_t bytes) override;
  void Connect(const std::string& address, const Pairing& pairing, TimePoint deadline, Ready ready) override;
  void Accept(const Pairing& pairing, TimePoint deadline, Ready ready) override;
  bool Drive(const std::function<bool()>& done, int64_t look_ns, TimePoint until) override {
    return loop_.Drive(done, look_ns, until);
  }

 private:
  void OpenFromLoop(PrivateFd socket, const Pairing& pairing, Ready ready);

  const TcpOptions options_;
  EventLoop loop_;
  Acceptor acceptor_;
  Dialer dialer_;
  const absl::Status started_;  // of the loop
  absl::Mutex mutex_;
  std::string address_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::transport::tcp

#endif  // FARANDOLE_TRANSPORT_TCP_TRANSPORT_H_
