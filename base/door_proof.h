#ifndef FARANDOLE_BASE_DOOR_PROOF_H_
#define FARANDOLE_BASE_DOOR_PROOF_H_

#include <string>

#include "absl/strings/string_view.h"

// What a client shows at a controller's front door (docs/control-plane.md, section 1): JOB ":" NONCE "." PROOF, as user
// and password of HTTP's Basic scheme. NONCE is 32 hexadecimal digits, PROOF those of HMAC-SHA256(token, "door/"
// NONCE). It shows that the client has a token of the job, a member's or an observer's, without telling it.
namespace farandole {

// What the controller says to a wrong token, wherever it notices.
inline constexpr char kWrongToken[] =
    "the token is missing or wrong for this job; look at the key that controller and launcher were given";
// What it says to a proof that came from another address before.
inline constexpr char kProofFromElsewhere[] =
    "the proof of the token came from another address before; make a new one, and if that happens again, look for who "
    "overhears this connection";

// Names of the arguments of a gRPC channel that make it say CONNECT to the server that it dials; the first gets the
// server's address, the second a DoorHeader.
inline constexpr char kDoorServerArgument[] = "grpc.http_connect_server";
inline constexpr char kDoorHeadersArgument[] = "grpc.http_connect_headers";

// With a new nonce, each time.
std::string DoorHeader(absl::string_view job, absl::string_view token);

// Whether gRPC's text for a connection that failed says that the door refused the token.
bool IsDoorRefusal(absl::string_view error);
// Whether it says that the token may be good, but the proof came from another address before.
bool IsProofFromElsewhere(absl::string_view error);

// The credentials of a request that a DoorHeader made, JOB:NONCE.PROOF; "" if there are none. `head` is an HTTP head.
std::string DoorCredentials(absl::string_view head);
// The PROOF of well-formed credentials, else "". It stands for token and nonce; the job's name may be exchanged for
// that of one of its parts, which have the same tokens.
std::string DoorProof(absl::string_view credentials);
// Whether `credentials` prove this token, for whatever job.
bool ProvesToken(absl::string_view credentials, absl::string_view token);
// Whether they prove a token of the job that they name, a member's or an observer's.
bool ProvesAnyToken(absl::string_view credentials, absl::string_view controller_key);

}  // namespace farandole

#endif  // FARANDOLE_BASE_DOOR_PROOF_H_
