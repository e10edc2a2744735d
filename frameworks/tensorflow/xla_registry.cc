#include "frameworks/tensorflow/xla_registry.h"

#include <dlfcn.h>

#include <optional>
#include <string>

namespace farandole::frameworks::tensorflow {
namespace {

// xla::CustomCallTargetRegistry::Global(), and its Register(const std::string&, void*, const std::string&).
constexpr char kGlobal[] = "_ZN3xla24CustomCallTargetRegistry6GlobalEv";
constexpr char kRegister[] =
    "_ZN3xla24CustomCallTargetRegistry8RegisterERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPvS8_";

}  // namespace

const char* RegisterWithXla(const char* name, XlaCall call) {
  void* const library = dlopen("libtensorflow_cc.so.2", RTLD_NOLOAD | RTLD_LAZY);
  if (library == nullptr) return "this TensorFlow has no libtensorflow_cc.so.2, in which XLA is";
  const auto global = reinterpret_cast<void* (*)()>(dlsym(library, kGlobal));
  const auto add =
      reinterpret_cast<void (*)(void*, const std::string&, void*, const std::string&)>(dlsym(library, kRegister));
  if (global == nullptr || add == nullptr) {
    return "the XLA of this TensorFlow does not export its registry of custom calls";
  }
  add(global(), name, reinterpret_cast<void*>(call), "Host");
  return nullptr;
}

// XlaCustomCallStatusSetFailure is not exported. This is all that it does, to the only member of its struct.
void FailXlaCall(void* status, const std::string& text) { *static_cast<std::optional<std::string>*>(status) = text; }

}  // namespace farandole::frameworks::tensorflow
