#ifndef FARANDOLE_BASE_DOOR_PROOF_H_
#define FARANDOLE_BASE_DOOR_PROOF_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

// What a client shows at a controller's front door (docs/control-plane.md, section 1): JOB ":" NONCE "." PROOF, as user
// and password of HTTP's Basic scheme. NONCE is 32 hexadecimal digits, PROOF those of HMAC-SHA256(token, "door/"
// NONCE). It shows that the client has a token of the job, a member's or an observer's, without telling it. For a token
// with an end "." END follows; it is a part of the token, so that no other one fits the proof.
namespace farandole {

// What the controller says to a wrong token, wherever it notices.
inline constexpr char kWrongToken[] = "the token is missing or wrong for this job";
// What it says to a proof that came from another address before.
inline constexpr char kProofFromElsewhere[] =
    "the proof of the token came from another address before; make a new one, and if that happens again, look for who "
    "overhears this connection";
// What it says to a token after its end, in seconds since 1970: this, when it was, and how one comes by another.
inline constexpr char kExpiredToken[] = "the token has expired, ";
// Before the name of the job; of a client's certificate.
inline constexpr char kNotCertified[] = "the certificate is not for job ";
std::string ExpiredToken(int64_t end_s);

enum class TokenState { kGood, kWrong, kExpired };

// Names of the arguments of a gRPC channel that make it say CONNECT to the server that it dials; the first gets the
// server's address, the second a DoorHeader.
inline constexpr char kDoorServerArgument[] = "grpc.http_connect_server";
inline constexpr char kDoorHeadersArgument[] = "grpc.http_connect_headers";

// With a new nonce, each time.
std::string DoorHeader(absl::string_view job, absl::string_view token);

// What the door has said to this token, by gRPC's text for a connection that failed. UNAUTHENTICATED: the token is
// wrong, or has expired. PERMISSION_DENIED: it may be good, but the proof came from another address before. OK: the
// text is no answer of the door.
absl::Status DoorAnswer(absl::string_view error, absl::string_view token);

// The credentials of a request that a DoorHeader made, JOB:NONCE.PROOF or JOB:NONCE.PROOF.END; "" if there are none.
// `head` is an HTTP head.
std::string DoorCredentials(absl::string_view head);
// The JOB that well-formed credentials name, whether they prove anything or not, else "".
std::string DoorJob(absl::string_view credentials);
// The PROOF of well-formed credentials, else "". It stands for token and nonce; the job's name may be exchanged for
// that of another one that the token opens: a part, or a job of its namespace.
std::string DoorProof(absl::string_view credentials);
// Whether `credentials` prove this token, for whatever job.
bool ProvesToken(absl::string_view credentials, absl::string_view token);
// What is to be thought of them at this moment, in seconds since 1970: kWrong unless they prove a token of the job that
// they name or of its namespace, a member's or an observer's, made from one of the keys.
TokenState ProvesAnyToken(absl::string_view credentials, const std::vector<std::string>& controller_keys,
                          int64_t now_s);

}  // namespace farandole

#endif  // FARANDOLE_BASE_DOOR_PROOF_H_
