#include "base/auth.h"

#include <fcntl.h>
#include <sodium.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/unique_fd.h"

namespace farandole {
namespace {

constexpr size_t kSecretBytesMax = 4096;

absl::StatusOr<std::string> ReadSecret(const UniqueFd& fd, absl::string_view what) {
  std::string secret;
  char buffer[1024];
  for (;;) {
    const ssize_t n = read(fd.get(), buffer, sizeof buffer);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return absl::InvalidArgumentError(absl::StrCat("cannot read ", what, ": ", std::strerror(errno)));
    if (n == 0) break;
    secret.append(buffer, n);
    if (secret.size() > kSecretBytesMax) return absl::InvalidArgumentError(absl::StrCat(what, " is too long"));
  }
  while (!secret.empty() && std::strchr(" \t\r\n", secret.back()) != nullptr) secret.pop_back();
  if (secret.empty()) return absl::InvalidArgumentError(absl::StrCat(what, " is empty"));
  return secret;
}

}  // namespace

std::string RandomBytes(int count) {
  std::string bytes(count, '\0');
  randombytes_buf(&bytes[0], bytes.size());
  return bytes;
}

uint64_t RandomId() {
  uint64_t id = 0;
  while (id == 0) randombytes_buf(&id, sizeof id);
  return id;
}

std::string HmacSha256(absl::string_view key, absl::string_view message) {
  crypto_auth_hmacsha256_state state;
  std::string mac(crypto_auth_hmacsha256_BYTES, '\0');
  crypto_auth_hmacsha256_init(&state, reinterpret_cast<const unsigned char*>(key.data()), key.size());
  crypto_auth_hmacsha256_update(&state, reinterpret_cast<const unsigned char*>(message.data()), message.size());
  crypto_auth_hmacsha256_final(&state, reinterpret_cast<unsigned char*>(&mac[0]));
  return mac;
}

bool EqualSecrets(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && sodium_memcmp(a.data(), b.data(), a.size()) == 0;
}

std::string MakeToken(absl::string_view controller_key, absl::string_view job, absl::string_view role, int64_t end_s) {
  const auto made = [&](absl::string_view text) { return absl::BytesToHexString(HmacSha256(controller_key, text)); };
  if (end_s == kNoEnd) return made(absl::StrCat(job, "/", role));
  return absl::StrCat(made(absl::StrCat(job, "/", role, "/", end_s)), ".", end_s);
}

bool IsTokenText(absl::string_view token) {
  return std::all_of(token.begin(), token.end(), [](unsigned char c) { return absl::ascii_isgraph(c); });
}

int64_t TokenEnd(absl::string_view token) {
  const size_t dot = token.find('.');
  if (dot == absl::string_view::npos) return kNoEnd;
  const absl::string_view text = token.substr(dot + 1);
  int64_t end_s = 0;
  return absl::SimpleAtoi(text, &end_s) && end_s > 0 && absl::StrCat(end_s) == text ? end_s : kNoEnd;
}

absl::StatusOr<std::string> ReadSecretFd(int fd) {
  return ReadSecret(UniqueFd(fd), absl::StrCat("the secret on descriptor ", fd));
}

absl::StatusOr<std::string> ReadSecretFile(const std::string& path) {
  // Not blocking: of a pipe open() would wait for somebody who writes.
  UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat info;
  if (!fd.valid() || fstat(fd.get(), &info) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("cannot open ", path, ": ", std::strerror(errno)));
  }
  // Kubernetes mounts a secret as root's, and lets the group of the pod read it.
  const bool mounted = info.st_uid == 0 && (info.st_mode & 0777) == 0440;
  if (!S_ISREG(info.st_mode) || ((info.st_mode & 077) != 0 && !mounted)) {
    return absl::PermissionDeniedError(
        absl::StrCat(path, " must be a regular file with mode 0600, or root's with mode 0440"));
  }
  return ReadSecret(fd, path);
}

}  // namespace farandole
