#include "tests/conformance/media.h"

#include "tests/conformance/layered_transport.h"
#include "transport/inproc/transport.h"
#include "transport/tcp/transport.h"

namespace farandole {

std::vector<Medium> Media() {
  return {
      {"inproc", [] { return std::make_unique<InprocTransport>(); }, false},
      {"tcp", [] { return std::make_unique<TcpTransport>(); }, true},
      {"tcp6", [] { return std::make_unique<TcpTransport>(TcpOptions{"::1"}); }, true},
      {"tcpx3", [] { return std::make_unique<LayeredTransport>(std::make_unique<TcpTransport>(), 3, false); }, true},
      {"sealed", [] { return std::make_unique<LayeredTransport>(std::make_unique<TcpTransport>(), 1, true); }, true},
  };
}

}  // namespace farandole
