#ifndef FARANDOLE_FRAMEWORKS_SUBMIT_H_
#define FARANDOLE_FRAMEWORKS_SUBMIT_H_

#include <cstdint>
#include <vector>

#include "frameworks/c_api.h"
#include "proto/types.h"
#include "worker/completion/result.h"

// The one way from the C ABI to the runtime.
namespace farandole::frameworks {

// farandole_submit.
worker::completion::Result Submit(const farandole_submission* submissions, int count, const char* group,
                                  int64_t* handles);

// A change of process sets, which has no tensor: adding `numbers`, which are its ranks, or removing the one of this
// number.
worker::completion::Result SubmitChange(OpKind op, std::vector<int64_t> numbers, int64_t* handle);

}  // namespace farandole::frameworks

#endif  // FARANDOLE_FRAMEWORKS_SUBMIT_H_
