#ifndef FARANDOLE_FRAMEWORKS_SUBMIT_H_
#define FARANDOLE_FRAMEWORKS_SUBMIT_H_

#include <cstdint>
#include <vector>

#include "frameworks/c_api.h"
#include "proto/types.h"
#include "worker/result.h"

// The one way from the C ABI to the runtime.
namespace farandole {

// farandole_submit.
Result Submit(const farandole_submission* submissions, int count, const char* group, int64_t* handles);

// A change of process sets, which has no tensor: adding `numbers`, which are its ranks, or removing the one of this
// number.
Result SubmitChange(OpKind op, std::vector<int64_t> numbers, int64_t* handle);

}  // namespace farandole

#endif  // FARANDOLE_FRAMEWORKS_SUBMIT_H_
