#ifndef FARANDOLE_PROTO_RULES_VERSION_CHECK_H_
#define FARANDOLE_PROTO_RULES_VERSION_CHECK_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace farandole {

// Releases work together when major and minor number agree. FAILED_PRECONDITION names both otherwise; `who` and `self`
// are in the sentence: "the agent on host b", "the controller".
absl::Status CheckVersion(absl::string_view who, absl::string_view version, absl::string_view self);

}  // namespace farandole

#endif  // FARANDOLE_PROTO_RULES_VERSION_CHECK_H_
