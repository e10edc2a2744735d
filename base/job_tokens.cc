#include "base/job_tokens.h"

#include "base/auth.h"
#include "base/job_name.h"

namespace farandole {

absl::string_view RoleOfToken(absl::string_view job, const std::vector<std::string>& controller_keys, int64_t end_s,
                              const std::function<bool(absl::string_view token)>& fits) {
  const std::string subjects[] = {std::string(WholeJob(job)), AllJobsOf(NamespaceOf(job))};
  for (const std::string& key : controller_keys) {
    for (const std::string& subject : subjects) {
      for (const char* role : {"member", "observer"}) {
        if (fits(MakeToken(key, subject, role, end_s))) return role;
      }
    }
  }
  return "";
}

}  // namespace farandole
