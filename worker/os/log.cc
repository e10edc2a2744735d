#include "worker/os/log.h"

#include <unistd.h>

#include <atomic>
#include <string>

#include "absl/strings/str_cat.h"

namespace farandole::worker::os {
namespace {

std::atomic<int> threshold{static_cast<int>(LogLevel::kWarning)};
std::atomic<int> own_rank{-1};

const char* Name(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return "debug";
    case LogLevel::kInfo:
      return "info";
    case LogLevel::kWarning:
      return "warning";
    case LogLevel::kError:
      return "error";
  }
  return "";
}

}  // namespace

void SetLogLevel(LogLevel level) { threshold.store(static_cast<int>(level)); }

void SetLogRank(int rank) { own_rank.store(rank); }

bool LogEnabled(LogLevel level) { return static_cast<int>(level) >= threshold.load(std::memory_order_relaxed); }

void Log(LogLevel level, absl::string_view text) {
  if (!LogEnabled(level)) return;
  const int rank = own_rank.load();
  const std::string who = rank < 0 ? absl::StrCat("pid ", getpid()) : absl::StrCat("rank ", rank);
  const std::string line = absl::StrCat("farandole ", Name(level), " (", who, "): ", text, "\n");
  (void)!write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace farandole::worker::os
