#include "transport/inproc/transport.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "base/auth.h"
#include "transport/handshake.h"
#include "transport/inproc/exchange.h"

namespace farandole::transport::inproc {

InprocTransport::InprocTransport()
    : loop_("fdl-inproc"), address_(absl::StrCat("inproc:", absl::Hex(RandomId()))), started_(loop_.Start()) {}

InprocTransport::~InprocTransport() {
  if (!started_.ok()) return;
  Exchange& exchange = Exchange::OfThisProcess();
  exchange.Shut(address_);
  // Behind every Connect and Accept that is on its way to the loop; the second turn runs what Cancel posts.
  absl::Notification stopped;
  loop_.Post([&] {
    exchange.Cancel(&loop_);
    loop_.Post([&] { stopped.Notify(); });
  });
  stopped.WaitForNotification();
  loop_.Join();
}

absl::StatusOr<std::string> InprocTransport::Listen() {
  if (!started_.ok()) return started_;
  Exchange::OfThisProcess().Open(address_);
  return address_;
}

absl::StatusOr<std::unique_ptr<Memory>> InprocTransport::Register(void* data, size_t bytes) {
  return Unregistered(data, bytes);
}

void InprocTransport::Connect(const std::string& address, const Pairing& pairing, TimePoint deadline, Ready ready) {
  loop_.Post([this, address, pairing, deadline, ready = std::move(ready)] {
    const absl::Status checked = CheckPairing(pairing);
    if (!checked.ok()) return ready(checked);
    ExpireFromLoop(Exchange::OfThisProcess().Connect(&loop_, address, pairing, ready), deadline);
  });
}

void InprocTransport::Accept(const Pairing& pairing, TimePoint deadline, Ready ready) {
  loop_.Post([this, pairing, deadline, ready = std::move(ready)] {
    const absl::Status checked = CheckPairing(pairing);
    if (!checked.ok()) return ready(checked);
    ExpireFromLoop(Exchange::OfThisProcess().Accept(&loop_, address_, pairing, ready), deadline);
  });
}

void InprocTransport::ExpireFromLoop(uint64_t id, TimePoint deadline) {
  if (deadline == TimePoint::Infinite()) return;
  loop_.AddTimerFromLoop(deadline, [id] { Exchange::OfThisProcess().Expire(id); });
}

}  // namespace farandole::transport::inproc
