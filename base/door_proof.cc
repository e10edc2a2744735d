#include "base/door_proof.h"

#include <ctime>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/auth.h"
#include "base/job_name.h"
#include "base/job_tokens.h"

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
  int64_t end_s = kNoEnd;
};

// All empty if the credentials are malformed.
Parts Split(absl::string_view credentials) {
  const size_t colon = credentials.find(':');
  if (colon == absl::string_view::npos) return {};
  const absl::string_view job = credentials.substr(0, colon);
  if (!IsJobName(job) && !IsAllJobs(job)) return {};
  const absl::string_view password = credentials.substr(colon + 1);
  if (password.size() <= kNonceDigits || password[kNonceDigits] != '.') return {};
  const absl::string_view nonce = password.substr(0, kNonceDigits);
  for (const char c : nonce) {
    if (!absl::ascii_isxdigit(static_cast<unsigned char>(c))) return {};
  }
  const absl::string_view shown = password.substr(kNonceDigits + 1);
  const size_t dot = shown.find('.');
  const int64_t end_s = TokenEnd(shown);
  if (dot != absl::string_view::npos && end_s == kNoEnd) return {};
  return {job, nonce, shown.substr(0, dot), end_s};
}

bool Says(absl::string_view error, int code) {
  return absl::StrContains(error, absl::StrCat("HTTP proxy returned response code ", code));
}

}  // namespace

std::string DoorHeader(absl::string_view job, absl::string_view token) {
  const std::string nonce = absl::BytesToHexString(RandomBytes(kNonceBytes));
  const int64_t end_s = TokenEnd(token);
  const std::string end = end_s == kNoEnd ? "" : absl::StrCat(".", end_s);
  return absl::StrCat(kHeaderName, ":Basic ",
                      absl::Base64Escape(absl::StrCat(job, ":", nonce, ".", ProofOf(token, nonce), end)));
}

std::string ExpiredToken(int64_t end_s) {
  const time_t when = end_s;
  tm parts{};
  char text[64] = "";
  // A year that no calendar has: the moment is left out.
  if (gmtime_r(&when, &parts) != nullptr) std::strftime(text, sizeof text, "on %Y-%m-%d at %H:%M:%S UTC", &parts);
  return absl::StrCat(kExpiredToken, text, "; make a new one with `farandole-controller token`");
}

absl::Status DoorAnswer(absl::string_view error, absl::string_view token) {
  if (Says(error, 407)) return absl::UnauthenticatedError(kWrongToken);
  if (Says(error, 410)) return absl::UnauthenticatedError(ExpiredToken(TokenEnd(token)));
  if (Says(error, 403)) return absl::PermissionDeniedError(kProofFromElsewhere);
  return absl::OkStatus();
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

std::string DoorJob(absl::string_view credentials) { return std::string(Split(credentials).job); }

std::string DoorProof(absl::string_view credentials) { return std::string(Split(credentials).proof); }

bool ProvesToken(absl::string_view credentials, absl::string_view token) {
  const Parts parts = Split(credentials);
  return !parts.nonce.empty() && EqualSecrets(parts.proof, ProofOf(token, parts.nonce));
}

TokenState ProvesAnyToken(absl::string_view credentials, const std::vector<std::string>& controller_keys,
                          int64_t now_s) {
  const Parts parts = Split(credentials);
  if (parts.nonce.empty()) return TokenState::kWrong;
  const auto fits = [&](absl::string_view token) { return ProvesToken(credentials, token); };
  if (RoleOfToken(parts.job, controller_keys, parts.end_s, fits).empty()) return TokenState::kWrong;
  return HasEnded(parts.end_s, now_s) ? TokenState::kExpired : TokenState::kGood;
}

}  // namespace farandole
