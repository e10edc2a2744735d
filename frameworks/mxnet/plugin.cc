// What libfarandole_mxnet.so exports: to farandole.mxnet, and by way of it to MXNet's engine.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "frameworks/c_api.h"
#include "frameworks/mxnet/request.h"
#include "frameworks/plugin/call.h"
#include "frameworks/plugin/core_functions.h"
#include "frameworks/plugin/under_way.h"

namespace farandole::frameworks::mxnet {
namespace {

plugin::CoreFunctions core;
MxFunctions functions;

}  // namespace
}  // namespace farandole::frameworks::mxnet

namespace ours = farandole::frameworks::mxnet;
namespace plugin = farandole::frameworks::plugin;

extern "C" {

// Copies both tables.
FARANDOLE_API void farandole_mxnet_bind(const plugin::CoreFunctions* core) {
  ours::core = *core;
  plugin::UnderWay::EndOnInterrupt(&ours::core);
}

FARANDOLE_API void farandole_mxnet_use(const ours::MxFunctions* functions) { ours::functions = *functions; }

// A collective of `count` arrays. `call` as python/farandole/core/calls.py makes it; `in` and `out` are handles of
// MXNet that are given away, the same if in place; `dims` are the dimensions of all arrays one after the other. NULL:
// `call` is none, and the handles stay the caller's. It is deleted by farandole_mxnet_delete.
FARANDOLE_API void* farandole_mxnet_request(const char* call, int count, void* const* in, void* const* out,
                                            const int* dtypes, const int* ndims, const int64_t* dims) {
  plugin::Call parsed;
  if (!parsed.Parse(call) || parsed.names.size() != static_cast<size_t>(count)) return nullptr;
  std::vector<ours::Request::Tensor> tensors(count);
  for (int i = 0; i < count; ++i) {
    tensors[i].in = in[i];
    tensors[i].out = out[i];
    tensors[i].dtype = dtypes[i];
    tensors[i].shape.assign(dims, dims + ndims[i]);
    dims += ndims[i];
  }
  return new ours::Request(ours::functions, ours::core, std::move(parsed), std::move(tensors));
}

// The function that the engine runs: EngineAsyncFunc of MXNet's C API.
FARANDOLE_API void farandole_mxnet_run(void*, void* on_complete, void* request) {
  static_cast<ours::Request*>(request)->Run(*static_cast<const ours::OnComplete*>(on_complete));
}

// EngineFuncParamDeleter of MXNet's C API.
FARANDOLE_API void farandole_mxnet_delete(void* request) { delete static_cast<ours::Request*>(request); }

}  // extern "C"
