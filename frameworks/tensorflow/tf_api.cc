#include "frameworks/tensorflow/tf_api.h"

#include <dlfcn.h>

namespace farandole::frameworks::tensorflow {
namespace {

bool Find(TfApi* api) {
  // As every release from 2.0 on is called; never loads one.
  void* const library = dlopen("libtensorflow_framework.so.2", RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return false;
  bool found = true;
#define FARANDOLE_TF_FUNCTION(result, name, arguments)                      \
  api->name = reinterpret_cast<result(*) arguments>(dlsym(library, #name)); \
  found &= api->name != nullptr;
#include "frameworks/tensorflow/tf_functions.inc"
#undef FARANDOLE_TF_FUNCTION
  return found;
}

}  // namespace

const TfApi* TfApi::Get() {
  static TfApi api;
  static const bool found = Find(&api);
  return found ? &api : nullptr;
}

}  // namespace farandole::frameworks::tensorflow
