#ifndef FARANDOLE_AGENT_VERSIONS_H_
#define FARANDOLE_AGENT_VERSIONS_H_

#include "absl/strings/string_view.h"

namespace farandole {

// Whether two releases "major.minor.patch" understand each other: equal up to the minor number.
inline bool SameMinor(absl::string_view a, absl::string_view b) {
  return a.substr(0, a.rfind('.')) == b.substr(0, b.rfind('.')) && !a.empty();
}

}  // namespace farandole

#endif  // FARANDOLE_AGENT_VERSIONS_H_
