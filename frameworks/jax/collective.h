#ifndef FARANDOLE_FRAMEWORKS_JAX_COLLECTIVE_H_
#define FARANDOLE_FRAMEWORKS_JAX_COLLECTIVE_H_

#include "frameworks/jax/xla_ffi.h"
#include "frameworks/plugin/core_functions.h"

// What libfarandole_jax.so exports.
extern "C" {

// Before the first collective, and again whenever it pleases. `functions` is copied.
FARANDOLE_API void farandole_jax_bind(const farandole::frameworks::plugin::CoreFunctions* functions);

// A custom call of XLA on host memory: one operation of every argument, of which the result at the same place has the
// values. The attribute `call` says which (call.h). Returns when all are done, since XLA's buffers are in use until
// then. Thread-safe.
//
// Errors: the text is "farandole error CODE: SENTENCE", CODE of frameworks/c_api.h. SIGINT or SIGTERM in between ends
// this process's part in the job (farandole_shutdown_begin), and the call with UNAVAILABLE.
FARANDOLE_API farandole::frameworks::jax::XlaError* farandole_jax_collective(
    farandole::frameworks::jax::XlaFrame* frame);

}  // extern "C"

#endif  // FARANDOLE_FRAMEWORKS_JAX_COLLECTIVE_H_
