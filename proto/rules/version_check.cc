#include "proto/rules/version_check.h"

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "proto/version.h"

namespace farandole {
namespace {

// "1.2" of "1.2.3"; empty if there are no two dots.
absl::string_view MajorMinor(absl::string_view version) {
  const size_t first = version.find('.');
  if (first == absl::string_view::npos || first == 0) return {};
  const size_t second = version.find('.', first + 1);
  if (second == absl::string_view::npos || second == first + 1) return {};
  return version.substr(0, second);
}

}  // namespace

absl::Status CheckVersion(absl::string_view who, absl::string_view version, absl::string_view self) {
  const absl::string_view theirs = MajorMinor(version);
  if (!theirs.empty() && theirs == MajorMinor(kVersion)) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(who, " has Farandole version \"",
                                                    absl::CEscape(version.substr(0, 64)), "\", ", self, " has ",
                                                    kVersion, "; install the same major.minor release on all hosts"));
}

}  // namespace farandole
