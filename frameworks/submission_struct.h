#ifndef FARANDOLE_FRAMEWORKS_SUBMISSION_STRUCT_H_
#define FARANDOLE_FRAMEWORKS_SUBMISSION_STRUCT_H_

#include "frameworks/c_api.h"
#include "worker/completion/result.h"

namespace farandole::frameworks {

// Element `index` of an array of structs of whatever release, as this one knows it: zeros for what it lacks. Checked is
// what has no meaning without the rest: its size, the operation, the kinds of its memory.
worker::completion::Result ReadSubmission(const farandole_submission* submissions, int index,
                                          farandole_submission* read);

// The CUDA device that its tensor lies on, -1: host memory. Of a tensor without elements, and of a broadcast elsewhere
// than at its root, that of the buffer that says so.
int DeviceOf(const farandole_submission& submission);

}  // namespace farandole::frameworks

#endif  // FARANDOLE_FRAMEWORKS_SUBMISSION_STRUCT_H_
