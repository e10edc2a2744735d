#include "transport/handshake.h"

#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/auth.h"

namespace farandole::transport {
namespace {

constexpr size_t kNonceBytes = 32;
constexpr size_t kMacBytes = 32;
constexpr size_t kNameBytesMax = 512;
// First bytes of a Hello; the last digit is the version of the handshake.
constexpr absl::string_view kMagic = "farandole1";

constexpr char kHello = 'H';
constexpr char kWait = 'W';
constexpr char kChallenge = 'C';
constexpr char kProof = 'P';
constexpr char kAccepted = 'A';
constexpr char kDenied = 'D';

constexpr absl::string_view kInitiatorRole = "initiator";
constexpr absl::string_view kResponderRole = "responder";

std::string WithLength(absl::string_view field) {
  const char length[2] = {static_cast<char>(field.size() & 0xff), static_cast<char>(field.size() >> 8)};
  return absl::StrCat(absl::string_view(length, 2), field);
}

// Takes a field with its length off the front of `rest`; false if it is cut off or longer than `bytes_max`.
bool TakeField(absl::string_view* rest, size_t bytes_max, std::string* field) {
  if (rest->size() < 2) return false;
  const size_t length = static_cast<unsigned char>((*rest)[0]) | static_cast<unsigned char>((*rest)[1]) << 8;
  rest->remove_prefix(2);
  if (length > bytes_max || length > rest->size()) return false;
  *field = std::string(rest->substr(0, length));
  rest->remove_prefix(length);
  return true;
}

struct Transcript {
  absl::string_view transport_name, domain, initiator_id, responder_id, initiator_nonce, responder_nonce;
};

std::string MacOf(absl::string_view key, absl::string_view role, const Transcript& t) {
  return HmacSha256(key, absl::StrCat(WithLength(kMagic), WithLength(role), WithLength(t.transport_name),
                                      WithLength(t.domain), WithLength(t.initiator_id), WithLength(t.responder_id)) +
                             absl::StrCat(WithLength(t.initiator_nonce), WithLength(t.responder_nonce)));
}

std::string Quoted(absl::string_view name) { return absl::StrCat("'", absl::CHexEscape(name), "'"); }

}  // namespace

absl::Status CheckPairing(const Pairing& pairing) {
  if (pairing.key.empty()) return absl::InvalidArgumentError("a channel needs a key; the pairing has none");
  for (const std::string* name : {&pairing.domain, &pairing.self_id, &pairing.peer_id}) {
    if (name->size() > kNameBytesMax) {
      return absl::InvalidArgumentError(absl::StrCat(
          "a domain or id of ", name->size(), " bytes is too long for a channel; ", kNameBytesMax, " are allowed"));
    }
  }
  return absl::OkStatus();
}

InitiatorHandshake::InitiatorHandshake(std::string transport_name, Pairing pairing)
    : transport_name_(std::move(transport_name)), pairing_(std::move(pairing)), nonce_(RandomBytes(kNonceBytes)) {}

std::string InitiatorHandshake::Hello() const {
  return absl::StrCat(absl::string_view(&kHello, 1), kMagic, nonce_, WithLength(pairing_.domain),
                      WithLength(pairing_.self_id)) +
         WithLength(pairing_.peer_id);
}

absl::StatusOr<InitiatorHandshake::Answer> InitiatorHandshake::Classify(absl::string_view message) const {
  if (message.size() == 1 && message[0] == kWait) return Answer::kWait;
  if (message.size() == 1 + kNonceBytes + kMacBytes && message[0] == kChallenge) return Answer::kChallenge;
  return absl::InvalidArgumentError("the other side does not speak this handshake");
}

absl::StatusOr<std::string> InitiatorHandshake::Prove(absl::string_view challenge) const {
  const Transcript transcript{transport_name_,  pairing_.domain, pairing_.self_id,
                              pairing_.peer_id, nonce_,          challenge.substr(1, kNonceBytes)};
  if (!EqualSecrets(MacOf(pairing_.key, kResponderRole, transcript), challenge.substr(1 + kNonceBytes))) {
    return absl::UnauthenticatedError(absl::StrCat(Quoted(pairing_.peer_id), " of domain ", Quoted(pairing_.domain),
                                                   " does not know the key of this end"));
  }
  return absl::StrCat(absl::string_view(&kProof, 1), MacOf(pairing_.key, kInitiatorRole, transcript));
}

absl::Status InitiatorHandshake::Finish(absl::string_view verdict) const {
  if (verdict.size() == 1 && verdict[0] == kAccepted) return absl::OkStatus();
  return absl::UnauthenticatedError(
      absl::StrCat(Quoted(pairing_.peer_id), " of domain ", Quoted(pairing_.domain), " denied the proof of this end"));
}

absl::StatusOr<ResponderHandshake> ResponderHandshake::Parse(std::string transport_name, absl::string_view hello) {
  ResponderHandshake parsed;
  parsed.transport_name_ = std::move(transport_name);
  const size_t fixed = 1 + kMagic.size() + kNonceBytes;
  if (hello.size() < fixed || hello[0] != kHello || hello.substr(1, kMagic.size()) != kMagic) {
    return absl::InvalidArgumentError("it does not speak this handshake");
  }
  parsed.initiator_nonce_ = std::string(hello.substr(1 + kMagic.size(), kNonceBytes));
  absl::string_view rest = hello.substr(fixed);
  if (!TakeField(&rest, kNameBytesMax, &parsed.domain_) || !TakeField(&rest, kNameBytesMax, &parsed.initiator_id_) ||
      !TakeField(&rest, kNameBytesMax, &parsed.responder_id_) || !rest.empty()) {
    return absl::InvalidArgumentError("its first message is malformed");
  }
  parsed.nonce_ = RandomBytes(kNonceBytes);
  return parsed;
}

bool ResponderHandshake::Matches(const Pairing& pairing) const {
  return pairing.domain == domain_ && pairing.self_id == responder_id_ && pairing.peer_id == initiator_id_;
}

std::string ResponderHandshake::Mac(const Pairing& pairing, absl::string_view role) const {
  return MacOf(pairing.key, role, {transport_name_, domain_, initiator_id_, responder_id_, initiator_nonce_, nonce_});
}

std::string ResponderHandshake::Challenge(const Pairing& pairing) const {
  return absl::StrCat(absl::string_view(&kChallenge, 1), nonce_, Mac(pairing, kResponderRole));
}

absl::Status ResponderHandshake::Check(const Pairing& pairing, absl::string_view proof) const {
  if (proof.size() == 1 + kMacBytes && proof[0] == kProof &&
      EqualSecrets(Mac(pairing, kInitiatorRole), proof.substr(1))) {
    return absl::OkStatus();
  }
  return absl::UnauthenticatedError(absl::StrCat(Claim(), " does not know the key"));
}

std::string ResponderHandshake::Claim() const {
  return absl::StrCat(Quoted(initiator_id_), " of domain ", Quoted(domain_), " for ", Quoted(responder_id_));
}

std::string ResponderHandshake::WaitMessage() { return std::string(1, kWait); }

std::string ResponderHandshake::VerdictMessage(bool accepted) { return std::string(1, accepted ? kAccepted : kDenied); }

}  // namespace farandole::transport
