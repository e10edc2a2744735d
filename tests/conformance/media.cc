#include "tests/conformance/media.h"

#include <utility>

#include "tests/conformance/layered_transport.h"
#include "tests/conformance/registering_transport.h"
#include "tests/conformance/test_verbs.h"
#include "transport/inproc/transport.h"
#include "transport/tcp/transport.h"
#include "transport/verbs/options.h"
#include "transport/verbs/transport.h"

namespace farandole::conformance {
namespace {

using transport::verbs::VerbsOptions;
using transport::verbs::VerbsTransport;

std::unique_ptr<transport::Transport> Verbs(VerbsOptions options) {
  return std::make_unique<RegisteringTransport>(std::make_unique<VerbsTransport>(std::move(options)));
}

// Everything but the smallest messages is large, and large ones go over several queue pairs, of two devices.
VerbsOptions SeveralPairs() {
  VerbsOptions options = TestVerbsOptions();
  if (!RealVerbs()) options.devices = "fake0,fake1";
  options.queue_pairs = 3;
  options.eager_bytes = 64;
  return options;
}

}  // namespace

std::vector<Medium> Media() {
  const Medium verbs{"verbs", [] { return Verbs(TestVerbsOptions()); }, true};
  const Medium several{"verbsx3", [] { return Verbs(SeveralPairs()); }, true};
  if (RealVerbs()) return {verbs, several};
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
      verbs,
      several,
  };
}

}  // namespace farandole::conformance
