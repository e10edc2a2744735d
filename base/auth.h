#ifndef FARANDOLE_BASE_AUTH_H_
#define FARANDOLE_BASE_AUTH_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

// Keys, tokens and proofs: HMAC-SHA256 and random bytes of libsodium.
namespace farandole {

inline constexpr int kKeyBytes = 32;

// Bytes from the kernel's generator.
std::string RandomBytes(int count);
// Never 0.
uint64_t RandomId();

// 32 bytes. `key` may have any length.
std::string HmacSha256(absl::string_view key, absl::string_view message);
// Compares in constant time; false when lengths differ.
bool EqualSecrets(absl::string_view a, absl::string_view b);

// Of a token that holds as long as the controller has its key.
inline constexpr int64_t kNoEnd = 0;
// Lower-case hex of HMAC(controller key, job "/" role); roles are "member" and "observer". With an end, in seconds
// since 1970, HEX "." END, where HEX is that of HMAC(controller key, job "/" role "/" END).
std::string MakeToken(absl::string_view controller_key, absl::string_view job, absl::string_view role,
                      int64_t end_s = kNoEnd);
// Whether it holds no character that no token has. It may have any length.
bool IsTokenText(absl::string_view token);
// What the token says, whoever has made it; kNoEnd also if it says no number as MakeToken writes it.
int64_t TokenEnd(absl::string_view token);
inline bool HasEnded(int64_t end_s, int64_t now_s) { return end_s != kNoEnd && now_s >= end_s; }

// Reads a secret of 1 to 4096 bytes from a descriptor (a pipe or file) up to its end, without trailing white space, and
// closes it. INVALID_ARGUMENT if empty or too long.
absl::StatusOr<std::string> ReadSecretFd(int fd);
// The same from a file; PERMISSION_DENIED unless it is a regular file that only its owner can read, or root's
// with mode 0440, as Kubernetes mounts secrets.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace farandole

#endif  // FARANDOLE_BASE_AUTH_H_
