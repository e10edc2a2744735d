#include "base/job_name.h"

#include <cstddef>

#include "absl/strings/ascii.h"

namespace farandole {
namespace {

constexpr size_t kNameMax = 128;
constexpr char kSlash = '/';

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

}  // namespace farandole
