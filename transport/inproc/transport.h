#ifndef FARANDOLE_TRANSPORT_INPROC_TRANSPORT_H_
#define FARANDOLE_TRANSPORT_INPROC_TRANSPORT_H_

#include <memory>
#include <string>

#include "base/event_loop.h"
#include "transport/transport.h"

namespace farandole::transport::inproc {

// Channels between parts of one process, for tests and simulations. One thread, "fdl-inproc". Several transports in
// one process behave as several processes with tcp would.
class InprocTransport final : public Transport {
 public:
  InprocTransport();
  ~InprocTransport() override;

  const char* name() const override { return "inproc"; }
  absl::Status Usable() const override { return started_; }
  absl::StatusOr<std::string> Listen() override;
  absl::StatusOr<std::unique_ptr<Memory>> Register(void* data, size_t bytes) override;
  void Connect(const std::string& address, const Pairing& pairing, TimePoint deadline, Ready ready) override;
  void Accept(const Pairing& pairing, TimePoint deadline, Ready ready) override;

 private:
  void ExpireFromLoop(uint64_t id, TimePoint deadline);

  EventLoop loop_;
  const std::string address_;
  const absl::Status started_;  // of the loop
};

}  // namespace farandole::transport::inproc

#endif  // FARANDOLE_TRANSPORT_INPROC_TRANSPORT_H_
