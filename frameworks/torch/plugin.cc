// What libfarandole_torch.so exports, to farandole.torch.

#include "frameworks/c_api.h"
#include "frameworks/plugin/core_functions.h"
#include "frameworks/torch/hook.h"
#include "frameworks/torch/python_api.h"

namespace farandole::frameworks::torch {
namespace {

plugin::CoreFunctions core;

}  // namespace
}  // namespace farandole::frameworks::torch

namespace ours = farandole::frameworks::torch;

extern "C" {

// Copies it.
FARANDOLE_API void farandole_torch_bind(const farandole::frameworks::plugin::CoreFunctions* core) {
  ours::core = *core;
}

// The type of hooks, a new reference. Called once, with Python's lock. NULL with an exception; without one if this
// Python does not show its functions.
FARANDOLE_API void* farandole_torch_hook_type(const ours::TorchObjects* objects) {
  const ours::PythonApi* const python = ours::PythonApi::Get();
  return python == nullptr ? nullptr : ours::MakeHookType(python, &ours::core, *objects);
}

}  // extern "C"
