#ifndef FARANDOLE_TRANSPORT_HANDSHAKE_H_
#define FARANDOLE_TRANSPORT_HANDSHAKE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "transport/transport.h"

// How two ends of a channel find out that they belong together, as messages without I/O. Every transport carries them
// in its own way, whole and in order:
//
//   connecting end                                   accepting end
//     Hello: domain, both ids, nonce      ------>
//                                         <------    Wait: nobody here awaits this pairing yet (any number of times)
//                                         <------    Challenge: nonce, MAC
//     Proof: MAC                          ------>
//                                         <------    Verdict: accepted or denied
//
// A MAC is HMAC-SHA256(key, role, transport name, domain, id of the connecting end, id of the accepting end, nonce of
// the connecting end, nonce of the accepting end), each with its length in front. Different roles make a reflected MAC
// worthless.
namespace farandole::transport {

// Longer messages are refused before they are read.
inline constexpr size_t kHandshakeMessageBytesMax = 2048;

// INVALID_ARGUMENT: no key, or names too long for a Hello.
absl::Status CheckPairing(const Pairing& pairing);

// The connecting end.
class InitiatorHandshake {
 public:
  InitiatorHandshake(std::string transport_name, Pairing pairing);

  std::string Hello() const;

  enum class Answer { kWait, kChallenge };
  // INVALID_ARGUMENT: neither of both, the other side speaks something else.
  absl::StatusOr<Answer> Classify(absl::string_view message) const;
  // The Proof. UNAUTHENTICATED: the accepting end does not know the key.
  absl::StatusOr<std::string> Prove(absl::string_view challenge) const;
  // OK or UNAUTHENTICATED.
  absl::Status Finish(absl::string_view verdict) const;

 private:
  const std::string transport_name_;
  const Pairing pairing_;
  const std::string nonce_;
};

// The accepting end, for one connection.
class ResponderHandshake {
 public:
  // INVALID_ARGUMENT: not a Hello.
  static absl::StatusOr<ResponderHandshake> Parse(std::string transport_name, absl::string_view hello);

  // True if this is the end that an Accept with this pairing awaits. Says nothing about the key.
  bool Matches(const Pairing& pairing) const;
  std::string Challenge(const Pairing& pairing) const;
  // UNAUTHENTICATED: the connecting end does not know the key.
  absl::Status Check(const Pairing& pairing, absl::string_view proof) const;
  // "'1' of domain 'job/3' for '0'", as claimed by the connecting end.
  std::string Claim() const;

  static std::string WaitMessage();
  static std::string VerdictMessage(bool accepted);

 private:
  ResponderHandshake() = default;
  std::string Mac(const Pairing& pairing, absl::string_view role) const;

  std::string transport_name_;
  std::string domain_;
  std::string initiator_id_;
  std::string responder_id_;
  std::string initiator_nonce_;
  std::string nonce_;
};

}  // namespace farandole::transport

#endif  // FARANDOLE_TRANSPORT_HANDSHAKE_H_
