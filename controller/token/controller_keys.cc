#include "controller/token/controller_keys.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/auth.h"

namespace farandole::controller::token {

absl::StatusOr<ControllerKeys> SplitKeys(absl::string_view secret, absl::string_view what) {
  ControllerKeys keys;
  for (const absl::string_view line : absl::StrSplit(secret, '\n')) {
    keys.emplace_back(absl::StripTrailingAsciiWhitespace(line));
    if (keys.back().empty())
      return absl::InvalidArgumentError(absl::StrCat("line ", keys.size(), " of ", what, " is empty"));
    if (keys.size() > kKeysMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(what, " has more than ", kKeysMax,
                       " lines; it holds one key, or a new one with the old one in the line below"));
    }
  }
  // One secret that somebody's tool has wrapped is not two keys, of which the second could be guessed.
  for (size_t i = 0; keys.size() > 1 && i < keys.size(); ++i) {
    if (keys[i].size() >= kCharactersMin) continue;
    return absl::InvalidArgumentError(absl::StrCat("line ", i + 1, " of ", what, " has ", keys[i].size(),
                                                   " characters; of two keys each has at least ", kCharactersMin));
  }
  return keys;
}

absl::StatusOr<ControllerKeys> ReadKeys(int fd, const std::string& path) {
  const absl::StatusOr<std::string> secret = fd >= 0 ? ReadSecretFd(fd) : ReadSecretFile(path);
  if (!secret.ok()) return secret.status();
  return SplitKeys(*secret, fd >= 0 ? absl::StrCat("the secret on descriptor ", fd) : path);
}

}  // namespace farandole::controller::token
