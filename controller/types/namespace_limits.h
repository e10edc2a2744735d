#ifndef FARANDOLE_CONTROLLER_TYPES_NAMESPACE_LIMITS_H_
#define FARANDOLE_CONTROLLER_TYPES_NAMESPACE_LIMITS_H_

#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace farandole::controller {

// How much of a controller the jobs of one namespace (base/job_name.h) may have at a time.
struct NamespaceLimits {
  static constexpr size_t kNone = std::numeric_limits<size_t>::max();

  size_t jobs_max = kNone;    // without their parts
  size_t agents_max = kNone;  // of all jobs and their parts
};

inline bool operator==(const NamespaceLimits& a, const NamespaceLimits& b) {
  return a.jobs_max == b.jobs_max && a.agents_max == b.agents_max;
}

// What the jobs of a namespace have of a controller.
struct NamespaceUse {
  std::string name;
  size_t jobs = 0;
  size_t agents = 0;
  NamespaceLimits limits;
};

// Those of a namespace, at present. From the hub's strand.
using LimitsOf = std::function<NamespaceLimits(absl::string_view name)>;

// By namespace; kOthers for those that have no line of their own.
class LimitTable {
 public:
  static constexpr char kOthers[] = "*";
  static constexpr size_t kNamespacesMax = 65536;

  // A line for each namespace, `NAME jobs=N agents=N` with one or both of them, each at least 1; `*` for the others.
  // Empty lines, and what follows a `#`, say nothing. INVALID_ARGUMENT: `what` and the line at fault.
  static absl::StatusOr<LimitTable> Parse(absl::string_view text, absl::string_view what);

  NamespaceLimits Of(absl::string_view name) const;
  size_t size() const { return limits_.size(); }
  bool operator==(const LimitTable& other) const { return limits_ == other.limits_; }

 private:
  std::map<std::string, NamespaceLimits, std::less<>> limits_;
};

}  // namespace farandole::controller

#endif  // FARANDOLE_CONTROLLER_TYPES_NAMESPACE_LIMITS_H_
