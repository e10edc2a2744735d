#include "controller/token/token_main.h"

#include <cstdio>

#include "absl/strings/str_cat.h"
#include "base/auth.h"
#include "base/job_name.h"
#include "proto/version.h"

namespace farandole::controller::token {

const Program& TokenProgram() {
  static const Program program = {"farandole-controller token",
                                  kVersion,
                                  "--job JOB (--key-fd N | --key-file FILE) [--role ROLE]",
                                  "Prints the token with which agents take part in one job, or with which its status "
                                  "is asked for. It holds as long\n"
                                  "as the controller has this key.\n",
                                  {
                                      {"--job", "JOB", "for which job"},
                                      {"--key-fd", "N", "read the controller's key from this descriptor"},
                                      {"--key-file", "FILE", "read it from this file of mode 0600"},
                                      {"--role", "ROLE", "member: takes part; observer: asks for the status (member)"},
                                  }};
  return program;
}

absl::StatusOr<std::string> TokenOf(const std::vector<std::string>& args) {
  absl::StatusOr<CommandLine> line = CommandLine::Split(TokenProgram(), args);
  if (!line.ok()) return line.status();
  std::string job, file, role = "member";
  int fd = -1;
  line->Text("--job", &job);
  line->Text("--key-file", &file);
  line->Text("--role", &role);
  line->Descriptor("--key-fd", &fd);
  if (!line->status().ok()) return line->status();
  if (!IsJobName(job)) {
    return absl::InvalidArgumentError(absl::StrCat("--job must be ", kJobNameRule, ", not '", job, "'"));
  }
  if (role != "member" && role != "observer") {
    return absl::InvalidArgumentError(absl::StrCat("--role must be member or observer, not '", role, "'"));
  }
  if ((fd >= 0) == !file.empty()) {
    return absl::InvalidArgumentError("give the controller's key with one of --key-fd and --key-file");
  }
  const absl::StatusOr<std::string> key = fd >= 0 ? ReadSecretFd(fd) : ReadSecretFile(file);
  if (!key.ok()) return absl::FailedPreconditionError(key.status().message());
  return MakeToken(*key, WholeJob(job), role);
}

int TokenMain(const std::vector<std::string>& args) {
  if (const auto code = AnswerHelp(TokenProgram(), args)) return *code;
  const absl::StatusOr<std::string> token = TokenOf(args);
  if (absl::IsInvalidArgument(token.status())) return UsageError(TokenProgram(), token.status());
  if (token.ok() && std::puts(token->c_str()) >= 0 && std::fflush(stdout) == 0) return 0;
  std::fprintf(stderr, "%s: %s\n", TokenProgram().name.c_str(), std::string(token.status().message()).c_str());
  return 1;
}

}  // namespace farandole::controller::token
