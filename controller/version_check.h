#ifndef FARANDOLE_CONTROLLER_VERSION_CHECK_H_
#define FARANDOLE_CONTROLLER_VERSION_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farandole {

// Releases work together when major and minor number agree. FAILED_PRECONDITION names both otherwise; `who` begins the
// sentence: "the agent on host b".
absl::Status CheckVersion(absl::string_view who, absl::string_view version);

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_VERSION_CHECK_H_
