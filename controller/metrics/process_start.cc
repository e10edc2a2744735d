#include "controller/metrics/process_start.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "base/read_file.h"

namespace farandole::controller::metrics {
namespace {

// Of proc(5), counted behind the name of the program.
constexpr size_t kStartField = 19;

}  // namespace

double StartSeconds(absl::string_view process, absl::string_view machine, int64_t ticks_per_s) {
  // The name stands in parentheses, and may hold any of them itself.
  const size_t name_end = process.rfind(')');
  if (name_end == absl::string_view::npos) return 0;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(process.substr(name_end + 1), absl::ByAnyChar(" \n"), absl::SkipEmpty());
  int64_t ticks = 0;
  if (fields.size() <= kStartField || !absl::SimpleAtoi(fields[kStartField], &ticks)) return 0;
  for (absl::string_view line : absl::StrSplit(machine, '\n')) {
    const std::pair<absl::string_view, absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
    int64_t booted_s = 0;
    if (words.first != "btime" || !absl::SimpleAtoi(words.second, &booted_s)) continue;
    return static_cast<double>(booted_s) + static_cast<double>(ticks) / static_cast<double>(ticks_per_s);
  }
  return 0;
}

double ProcessStartSeconds() {
  return StartSeconds(ReadFile("/proc/self/stat"), ReadFile("/proc/stat"), sysconf(_SC_CLK_TCK));
}

}  // namespace farandole::controller::metrics
