#ifndef FARANDOLE_BASE_JOB_TOKENS_H_
#define FARANDOLE_BASE_JOB_TOKENS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace farandole {

// The tokens with this end (base/auth.h) that open a job or one of its parts: those of the whole job and those of its
// namespace, of a member and of an observer, from each key. The role of the first one that `fits`; "" if none does.
absl::string_view RoleOfToken(absl::string_view job, const std::vector<std::string>& controller_keys, int64_t end_s,
                              const std::function<bool(absl::string_view token)>& fits);

}  // namespace farandole

#endif  // FARANDOLE_BASE_JOB_TOKENS_H_
