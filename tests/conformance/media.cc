#include "tests/conformance/media.h"

#include <cstdlib>
#include <utility>

#include "tests/conformance/layered_transport.h"
#include "tests/conformance/registering_transport.h"
#include "transport/inproc/transport.h"
#include "transport/tcp/transport.h"
#include "transport/verbs/options.h"
#include "transport/verbs/transport.h"

namespace farandole::conformance {
namespace {

using transport::verbs::VerbsOptions;
using transport::verbs::VerbsTransport;

// Over the fake; with FARANDOLE_TEST_VERBS=real over the devices of this machine, the one of the address in
// FARANDOLE_TEST_HOST.
bool Real() {
  const char* const which = std::getenv("FARANDOLE_TEST_VERBS");
  return which != nullptr && std::string(which) == "real";
}

VerbsOptions Options() {
  VerbsOptions options;
  if (!Real()) options.library = "transport/verbs/fake_ibverbs.so";
  const char* const host = std::getenv("FARANDOLE_TEST_HOST");
  if (Real() && host != nullptr) options.listen_host = host;
  return options;
}

std::unique_ptr<transport::Transport> Verbs(VerbsOptions options) {
  return std::make_unique<RegisteringTransport>(std::make_unique<VerbsTransport>(std::move(options)));
}

// Everything but the smallest messages is large, and large ones go over several queue pairs, of two devices.
VerbsOptions SeveralPairs() {
  VerbsOptions options = Options();
  if (!Real()) options.devices = "fake0,fake1";
  options.queue_pairs = 3;
  options.eager_bytes = 64;
  return options;
}

}  // namespace

std::vector<Medium> Media() {
  const Medium verbs{"verbs", [] { return Verbs(Options()); }, true};
  const Medium several{"verbsx3", [] { return Verbs(SeveralPairs()); }, true};
  if (Real()) return {verbs, several};
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
