#include "controller/query/query_main.h"

#include <cstdio>

#include "base/command_line.h"
#include "controller/query/status_query.h"

namespace farandole::controller::query {

int QueryMain(const std::vector<std::string>& args) {
  if (const auto code = AnswerHelp(QueryProgram(), args)) return *code;
  const auto options = ParseQuery(args);
  if (!options.ok()) return UsageError(QueryProgram(), options.status());
  const absl::Status status =
      Query(*options, [](const std::string& line) { return std::puts(line.c_str()) >= 0 && std::fflush(stdout) == 0; });
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return ExitCode(status);
}

}  // namespace farandole::controller::query
