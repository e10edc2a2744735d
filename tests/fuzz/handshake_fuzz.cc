// Any messages to both ends of the handshake of a channel.
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "tests/fuzz/record.h"
#include "transport/handshake.h"

namespace farandole::fuzz {
namespace {

transport::Pairing PairingOf(const char* self, const char* peer) {
  transport::Pairing pairing;
  pairing.domain = "job/3";
  pairing.self_id = self;
  pairing.peer_id = peer;
  pairing.key = "key";
  return pairing;
}

void Respond(absl::string_view hello, absl::string_view proof) {
  const auto responder = transport::ResponderHandshake::Parse("tcp", hello);
  if (!responder.ok()) return;
  const transport::Pairing pairing = PairingOf("0", "1");
  responder->Matches(pairing);
  responder->Claim();
  responder->Challenge(pairing);
  // Nobody proves a key by chance.
  if (responder->Check(pairing, proof).ok()) std::abort();
}

void Initiate(absl::string_view message) {
  const transport::InitiatorHandshake initiator("tcp", PairingOf("1", "0"));
  const auto answer = initiator.Classify(message);
  if (answer.ok() && *answer == transport::InitiatorHandshake::Answer::kChallenge && initiator.Prove(message).ok())
    std::abort();
  (void)initiator.Finish(message);
}

}  // namespace
}  // namespace farandole::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  absl::string_view rest(reinterpret_cast<const char*>(data), size);
  farandole::fuzz::Record first, second;
  if (!farandole::fuzz::TakeRecord(&rest, &first)) return 0;
  farandole::fuzz::TakeRecord(&rest, &second);
  if (first.what % 2 == 0) {
    farandole::fuzz::Respond(first.bytes, second.bytes);
  } else {
    farandole::fuzz::Initiate(first.bytes);
  }
  return 0;
}
