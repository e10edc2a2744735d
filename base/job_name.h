#ifndef FARANDOLE_BASE_JOB_NAME_H_
#define FARANDOLE_BASE_JOB_NAME_H_

#include "absl/strings/string_view.h"

// Names of jobs. NAME is one that somebody has chosen; NAME/PART is that of some of its processes as a job of their
// own, which speak to the same controller. The slash tells them apart: nobody can choose a name that another job's
// tokens open.
namespace farandole {

// For error texts, after "must be".
inline constexpr char kJobNameRule[] =
    "1 to 128 characters of [A-Za-z0-9._-], or two such names with a slash between them";

// True for NAME and NAME/PART, each of [A-Za-z0-9._-], 1 to 128 characters in all.
bool IsJobName(absl::string_view name);

// The job whose tokens are wanted for this one: NAME of NAME/PART, and NAME of NAME. `name` is the name of a job.
absl::string_view WholeJob(absl::string_view name);

}  // namespace farandole

#endif  // FARANDOLE_BASE_JOB_NAME_H_
