#ifndef FARANDOLE_CONTROLLER_TOKEN_TOKEN_MAIN_H_
#define FARANDOLE_CONTROLLER_TOKEN_TOKEN_MAIN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/command_line.h"

namespace farandole::controller::token {

const Program& TokenProgram();

// The token that the arguments ask for, without the program's name, at this moment in seconds since 1970.
// INVALID_ARGUMENT: a wrong one; otherwise why the key cannot be read.
absl::StatusOr<std::string> TokenOf(const std::vector<std::string>& args, int64_t now_s);

// The program `farandole-controller token`; returns its exit code. `args` behind "token".
int TokenMain(const std::vector<std::string>& args);

}  // namespace farandole::controller::token

#endif  // FARANDOLE_CONTROLLER_TOKEN_TOKEN_MAIN_H_
