#ifndef FARANDOLE_FRAMEWORKS_SUBMISSION_H_
#define FARANDOLE_FRAMEWORKS_SUBMISSION_H_

#include <cstdint>

#include "proto/types.h"
#include "worker/completion/result.h"
#include "worker/session/place.h"

// What a submission through the C ABI must fulfil on this rank, before any other rank hears of it.
namespace farandole::frameworks {

// Types and bounds of the raw arguments: dtype in the enum, ndim 0 to 64, dimensions not negative, size in bytes below
// 2^62, and for an op along dimension 0 at least that one.
worker::completion::Result FillTensor(OpKind op, int dtype, int ndim, const int64_t* shape, uint32_t process_set,
                                      Signature* signature);

// `reduce_op` known, and one for the type that the signature has already; scales finite.
worker::completion::Result FillReduction(int reduce_op, double prescale, double postscale, Signature* signature);

// INVALID_ARGUMENT: a controller would not read such a name. Null: one is made.
worker::completion::Result CheckName(const char* name);

// What needs the job: membership in the process set, root, splits, memory that is read or written here. `name` may
// be null.
worker::completion::Result Validate(const char* name, const Signature& signature, const void* input, bool has_output,
                                    const worker::session::Place& place);

}  // namespace farandole::frameworks

#endif  // FARANDOLE_FRAMEWORKS_SUBMISSION_H_
