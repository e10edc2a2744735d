#include "base/door_proof.h"

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/auth.h"
#include "base/job_name.h"

namespace farandole {
namespace {

constexpr int kNonceBytes = 16;
constexpr size_t kNonceDigits = 2 * kNonceBytes;
constexpr char kHeaderName[] = "Proxy-Authorization";
constexpr char kScheme[] = "basic ";

std::string ProofOf(absl::string_view token, absl::string_view nonce) {
  return absl::BytesToHexString(HmacSha256(token, absl::StrCat("door/", nonce)));
}

struct Parts {
  absl::string_view job;
  absl::string_view nonce;
  absl::string_view proof;
};

// All empty if the credentials are malformed.
Parts Split(absl::string_view credentials) {
  const size_t colon = credentials.find(':');
  if (colon == absl::string_view::npos || !IsJobName(credentials.substr(0, colon))) return {};
  const absl::string_view password = credentials.substr(colon + 1);
  if (password.size() <= kNonceDigits || password[kNonceDigits] != '.') return {};
  const absl::string_view nonce = password.substr(0, kNonceDigits);
  for (const char c : nonce) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return {};
  }
  return {credentials.substr(0, colon), nonce, password.substr(kNonceDigits + 1)};
}

}  // namespace

std::string DoorHeader(absl::string_view job, absl::string_view token) {
  const std::string nonce = absl::BytesToHexString(RandomBytes(kNonceBytes));
  return absl::StrCat(kHeaderName, ":Basic ",
                      absl::Base64Escape(absl::StrCat(job, ":", nonce, ".", ProofOf(token, nonce))));
}

bool IsDoorRefusal(absl::string_view error) {
  return absl::StrContains(error, "HTTP proxy returned response code 407");
}

bool IsProofFromElsewhere(absl::string_view error) {
  return absl::StrContains(error, "HTTP proxy returned response code 403");
}

std::string DoorCredentials(absl::string_view head) {
  for (absl::string_view line : absl::StrSplit(head, '\n')) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos || !absl::EqualsIgnoreCase(line.substr(0, colon), kHeaderName)) continue;
    const absl::string_view value = absl::StripAsciiWhitespace(line.substr(colon + 1));
    std::string credentials;
    if (!absl::StartsWithIgnoreCase(value, kScheme)) return "";
    const absl::string_view escaped = absl::StripAsciiWhitespace(value.substr(sizeof kScheme - 1));
    return absl::Base64Unescape(escaped, &credentials) ? credentials : "";
  }
  return "";
}

std::string DoorProof(absl::string_view credentials) { return std::string(Split(credentials).proof); }

bool ProvesToken(absl::string_view credentials, absl::string_view token) {
  const Parts parts = Split(credentials);
  return !parts.nonce.empty() && EqualSecrets(parts.proof, ProofOf(token, parts.nonce));
}

bool ProvesAnyToken(absl::string_view credentials, absl::string_view controller_key) {
  const Parts parts = Split(credentials);
  if (parts.nonce.empty()) return false;
  const absl::string_view job = WholeJob(parts.job);
  return ProvesToken(credentials, MakeToken(controller_key, job, "member")) ||
         ProvesToken(credentials, MakeToken(controller_key, job, "observer"));
}

}  // namespace farandole
