#include "frameworks/torch/python_api.h"

#include <dlfcn.h>

namespace farandole::frameworks::torch {
namespace {

bool Find(PythonApi* api) {
  bool found = true;
#define FARANDOLE_PY_FUNCTION(result, name, arguments)                           \
  api->name = reinterpret_cast<result(*) arguments>(dlsym(RTLD_DEFAULT, #name)); \
  found &= api->name != nullptr;
#include "frameworks/torch/python_functions.inc"
#undef FARANDOLE_PY_FUNCTION
  return found;
}

}  // namespace

const PythonApi* PythonApi::Get() {
  static PythonApi api;
  static const bool found = Find(&api);
  return found ? &api : nullptr;
}

}  // namespace farandole::frameworks::torch
