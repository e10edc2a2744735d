#include "tests/conformance/media.h"

#include "tests/conformance/layered_transport.h"
#include "transport/inproc/transport.h"
#include "transport/tcp/transport.h"

namespace farandole::conformance {

std::vector<Medium> Media() {
  return {
      {"inproc", [] { return std::make_unique<transport::inproc::InprocTransport>(); }, false},
      {"tcp", [] { return std::make_unique<transport::tcp::TcpTransport>(); }, true},
      {"tcp6", [] { return std::make_unique<transport::tcp::TcpTransport>(transport::tcp::TcpOptions{"::1"}); }, true},
      {"tcpx3",
       [] { return std::make_unique<LayeredTransport>(std::make_unique<transport::tcp::TcpTransport>(), 3, false); },
       true},
      {"sealed",
       [] { return std::make_unique<LayeredTransport>(std::make_unique<transport::tcp::TcpTransport>(), 1, true); },
       true},
  };
}

}  // namespace farandole::conformance
