// Any bytes as what a peer says on the socket on which RDMA channels begin and end: its Terms, and its Goodbye. What is
// taken as Terms can be told again, and queue pairs can be connected to them.
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "tests/fuzz/played_port.h"
#include "transport/verbs/link.h"
#include "transport/verbs/terms.h"

namespace farandole::fuzz {
namespace {

void Meet(const transport::verbs::Terms& terms) {
  static const transport::verbs::Ports* const ports = new transport::verbs::Ports(PlayedPorts());
  auto link = transport::verbs::Link::Make(*ports, {}, 1);
  if (!link.ok()) std::abort();
  const size_t pairs = (*link)->endpoints().size();
  const absl::Status connected = (*link)->Connect(terms.endpoints);
  if (connected.ok() && (*link)->endpoints().size() > pairs) std::abort();
}

}  // namespace
}  // namespace farandole::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  namespace verbs = farandole::transport::verbs;
  const absl::string_view bytes(reinterpret_cast<const char*>(data), size);
  (void)verbs::DecodeGoodbye(bytes);
  (void)verbs::IsReady(bytes);
  // Nobody proves a key by chance.
  if (verbs::ProvesTerms(bytes, "key", "own", bytes)) std::abort();
  const auto terms = verbs::DecodeTerms(bytes);
  if (!terms.ok()) return 0;
  const auto again = verbs::DecodeTerms(verbs::EncodeTerms(*terms));
  if (!again.ok() || again->endpoints.size() != terms->endpoints.size()) std::abort();
  farandole::fuzz::Meet(*terms);
  return 0;
}
