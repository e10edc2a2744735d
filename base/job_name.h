#ifndef FARANDOLE_BASE_JOB_NAME_H_
#define FARANDOLE_BASE_JOB_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

// Names of jobs. NAME is one that somebody has chosen; NAME/PART is that of some of its processes as a job of their
// own, which speak to the same controller. The slash tells them apart: nobody can choose a name that another job's
// tokens open.
//
// A job is in a namespace, as teams have them that share a controller: "team.digits" is in "team", a name without a dot
// in "default".
namespace farandole {

// For error texts, after "must be".
inline constexpr char kJobNameRule[] =
    "1 to 128 characters of [A-Za-z0-9._-], or two such names with a slash between them";

// True for NAME and NAME/PART, each of [A-Za-z0-9._-], 1 to 128 characters in all.
bool IsJobName(absl::string_view name);

// The job whose tokens are wanted for this one: NAME of NAME/PART, and NAME of NAME. `name` is the name of a job.
absl::string_view WholeJob(absl::string_view name);

// For error texts, after "must be".
inline constexpr char kNamespaceRule[] = "1 to 63 characters of [A-Za-z0-9_-]";

// True for what may stand before the first dot of a name.
bool IsNamespace(absl::string_view name);

// That of the job of this name, or of its whole one: what stands before the first dot.
absl::string_view NamespaceOf(absl::string_view job);

// What stands in the place of a job's name in a token or certificate that is for all jobs of a namespace: "team.*",
// which is no job's name.
std::string AllJobsOf(absl::string_view name);

// True for AllJobsOf() of a namespace.
bool IsAllJobs(absl::string_view name);

}  // namespace farandole

#endif  // FARANDOLE_BASE_JOB_NAME_H_
