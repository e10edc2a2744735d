#ifndef FARANDOLE_FRAMEWORKS_SUBMISSION_STRUCT_H_
#define FARANDOLE_FRAMEWORKS_SUBMISSION_STRUCT_H_

#include "frameworks/c_api.h"
#include "worker/result.h"

namespace farandole {

// Element `index` of an array of structs of whatever release, as this one knows it: zeros for what it lacks. Checked is
// what has no meaning without the rest: its size, the operation, the kinds of its memory.
Result ReadSubmission(const farandole_submission* submissions, int index, farandole_submission* read);

}  // namespace farandole

#endif  // FARANDOLE_FRAMEWORKS_SUBMISSION_STRUCT_H_
