#include "controller/hub/log.h"

#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"

namespace farandole::controller::hub {

void Log::Write(LogLevel level, absl::string_view text) const {
  if (level < least_) return;
  static constexpr const char* kNames[] = {"debug", "info", "warning", "error"};
  const std::string line = absl::StrCat("farandole-controller: ", kNames[static_cast<int>(level)], ": ", text, "\n");
  // What a full pipe does not take is lost; a log must not hold up a job.
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace farandole::controller::hub
