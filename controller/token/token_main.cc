#include "controller/token/token_main.h"

#include <cstdio>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/auth.h"
#include "base/job_name.h"
#include "controller/token/controller_keys.h"
#include "proto/version.h"

namespace farandole::controller::token {
namespace {

constexpr int64_t kDayS = 86400;
// Whoever wants more wants none.
constexpr int64_t kValidForMaxS = 36500 * kDayS;

// 0: none is asked for.
int64_t ValidForS(CommandLine* line) {
  std::string text;
  line->Text("--valid-for", &text);
  if (!line->Has("--valid-for")) return 0;
  const std::string digits = text.substr(0, text.find_first_not_of("0123456789"));
  const std::string unit = text.substr(digits.size());
  const int64_t unit_s = unit == "s" ? 1 : unit == "m" ? 60 : unit == "h" ? 3600 : unit == "d" ? kDayS : 0;
  int64_t count = 0;
  if (unit_s > 0 && absl::SimpleAtoi(digits, &count) && count > 0 && count <= kValidForMaxS / unit_s) {
    return count * unit_s;
  }
  line->Refuse("--valid-for",
               "a whole number with its unit, s, m, h or d, such as 30m, 12h or 90d, and at most 36500d");
  return 0;
}

}  // namespace

const Program& TokenProgram() {
  static const Program program = {"farandole-controller token",
                                  kVersion,
                                  "(--job JOB | --namespace NAME) (--key-fd N | --key-file FILE) [--role ROLE] "
                                  "[--valid-for DURATION]",
                                  "Prints the token with which agents take part in a job, or in any job of a "
                                  "namespace, or with which the status is\n"
                                  "asked for. It holds as long as the controller has this key, or until its end. Of "
                                  "two keys the first one makes it.\n",
                                  {
                                      {"--job", "JOB", "for which job"},
                                      {"--namespace", "NAME", "for all jobs called NAME.something"},
                                      {"--key-fd", "N", "read the controller's key from this descriptor"},
                                      {"--key-file", "FILE", "read it from this file of mode 0600"},
                                      {"--role", "ROLE", "member: takes part; observer: asks for the status (member)"},
                                      {"--valid-for", "DURATION", "30m, 12h, 90d: its end (none)"},
                                  }};
  return program;
}

absl::StatusOr<std::string> TokenOf(const std::vector<std::string>& args, int64_t now_s) {
  absl::StatusOr<CommandLine> line = CommandLine::Split(TokenProgram(), args);
  if (!line.ok()) return line.status();
  std::string job, group, file, role = "member";
  int fd = -1;
  line->Text("--job", &job);
  line->Text("--namespace", &group);
  line->Text("--key-file", &file);
  line->Text("--role", &role);
  line->Descriptor("--key-fd", &fd);
  const int64_t valid_for_s = ValidForS(&*line);
  if (!line->status().ok()) return line->status();
  if (line->Has("--job") == line->Has("--namespace")) {
    return absl::InvalidArgumentError("give one of --job and --namespace");
  }
  if (line->Has("--namespace") && !IsNamespace(group)) {
    return absl::InvalidArgumentError(absl::StrCat("--namespace must be ", kNamespaceRule, ", not '", group, "'"));
  }
  if (line->Has("--job") && !IsJobName(job)) {
    return absl::InvalidArgumentError(absl::StrCat("--job must be ", kJobNameRule, ", not '", job, "'"));
  }
  if (role != "member" && role != "observer") {
    return absl::InvalidArgumentError(absl::StrCat("--role must be member or observer, not '", role, "'"));
  }
  if ((fd >= 0) == !file.empty()) {
    return absl::InvalidArgumentError("give the controller's key with one of --key-fd and --key-file");
  }
  const absl::StatusOr<ControllerKeys> keys = ReadKeys(fd, file);
  if (!keys.ok()) return absl::FailedPreconditionError(keys.status().message());
  const std::string subject = line->Has("--job") ? std::string(WholeJob(job)) : AllJobsOf(group);
  return MakeToken(keys->front(), subject, role, valid_for_s == 0 ? kNoEnd : now_s + valid_for_s);
}

int TokenMain(const std::vector<std::string>& args) {
  if (const auto code = AnswerHelp(TokenProgram(), args)) return *code;
  const absl::StatusOr<std::string> token = TokenOf(args, absl::GetCurrentTimeNanos() / 1000000000);
  if (absl::IsInvalidArgument(token.status())) return UsageError(TokenProgram(), token.status());
  if (token.ok() && std::puts(token->c_str()) >= 0 && std::fflush(stdout) == 0) return 0;
  std::fprintf(stderr, "%s: %s\n", TokenProgram().name.c_str(), std::string(token.status().message()).c_str());
  return 1;
}

}  // namespace farandole::controller::token
