#include "controller/files/limits_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/read_file.h"

namespace farandole::controller::files {
namespace {

FileWatch<LimitTable>::Plan PlanFor(const std::string& path) {
  return {[path] { return ReadLimits(path); }, "limits", path,
          [path](const LimitTable&, const LimitTable& now) {
            return absl::StrCat("limits read again from ", path, ": they have ", now.size(),
                                now.size() == 1 ? " line" : " lines");
          }};
}

}  // namespace

absl::StatusOr<LimitTable> ReadLimits(const std::string& path) {
  const absl::optional<std::string> text = ReadRegularFile(path);
  if (!text) return absl::InvalidArgumentError(absl::StrCat(path, " cannot be read, or is no regular file"));
  return LimitTable::Parse(*text, path);
}

LimitsFile::LimitsFile(const std::string& path, LimitRing* ring, EventLoop* loop, const hub::Log* log,
                       audit::Audit audit)
    : FileWatch(PlanFor(path), ring, loop, log, std::move(audit)) {}

}  // namespace farandole::controller::files
