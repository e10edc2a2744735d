#ifndef FARANDOLE_CONTROLLER_TOKEN_CONTROLLER_KEYS_H_
#define FARANDOLE_CONTROLLER_TOKEN_CONTROLLER_KEYS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole::controller::token {

// The keys of a controller, the first one first: new tokens and the pinned certificate are made from that one, tokens
// of each are accepted. There are two of them while one is exchanged for another.
using ControllerKeys = std::vector<std::string>;

inline constexpr size_t kKeysMax = 2;
// Of each of two.
inline constexpr size_t kCharactersMin = 16;

// From a secret without white space at its end: one key a line, which ends before white space. INVALID_ARGUMENT: an
// empty line, more than kKeysMax, or one of two that could be guessed. `what` names the secret in errors, which say
// nothing of the keys.
absl::StatusOr<ControllerKeys> SplitKeys(absl::string_view secret, absl::string_view what);

// From the descriptor if there is one, else from the file. The codes of ReadSecretFd, ReadSecretFile and SplitKeys.
absl::StatusOr<ControllerKeys> ReadKeys(int fd, const std::string& path);

}  // namespace farandole::controller::token

#endif  // FARANDOLE_CONTROLLER_TOKEN_CONTROLLER_KEYS_H_
