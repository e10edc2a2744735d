#ifndef FARANDOLE_BASE_AUTH_H_
#define FARANDOLE_BASE_AUTH_H_

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

// Lower-case hex of HMAC(controller key, job "/" role); roles are "member" and "observer".
std::string MakeToken(absl::string_view controller_key, absl::string_view job, absl::string_view role);

// Reads a secret of 1 to 4096 bytes from a descriptor (a pipe or file) up to its end, without trailing white space, and
// closes it. INVALID_ARGUMENT if empty or too long.
absl::StatusOr<std::string> ReadSecretFd(int fd);
// The same from a file; PERMISSION_DENIED unless it is a regular file that only its owner can read, or root's
// with mode 0440, as Kubernetes mounts secrets.
absl::StatusOr<std::string> ReadSecretFile(const std::string& path);

}  // namespace farandole

#endif  // FARANDOLE_BASE_AUTH_H_
