#include "base/job_name.h"

#include <cstddef>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace farandole {
namespace {

constexpr size_t kNameMax = 128;
constexpr size_t kNamespaceMax = 63;
constexpr char kDot = '.';
constexpr char kDefaultNamespace[] = "default";
constexpr char kSlash = '/';
constexpr char kAllJobs[] = ".*";

bool IsChosenName(absl::string_view name) {
  for (char c : name) {
    if (!absl::ascii_isalnum(c) && c != '.' && c != '_' && c != '-') return false;
  }
  return !name.empty();
}

}  // namespace

bool IsJobName(absl::string_view name) {
  if (name.size() > kNameMax) return false;
  const absl::string_view whole = WholeJob(name);
  return IsChosenName(whole) && (whole.size() == name.size() || IsChosenName(name.substr(whole.size() + 1)));
}

absl::string_view WholeJob(absl::string_view name) { return name.substr(0, name.find(kSlash)); }

bool IsNamespace(absl::string_view name) {
  return name.size() <= kNamespaceMax && IsChosenName(name) && name.find(kDot) == absl::string_view::npos;
}

absl::string_view NamespaceOf(absl::string_view job) {
  const absl::string_view whole = WholeJob(job);
  const size_t dot = whole.find(kDot);
  return dot == absl::string_view::npos ? kDefaultNamespace : whole.substr(0, dot);
}

std::string AllJobsOf(absl::string_view name) { return absl::StrCat(name, kAllJobs); }

bool IsAllJobs(absl::string_view name) { return absl::ConsumeSuffix(&name, kAllJobs) && IsNamespace(name); }

}  // namespace farandole
