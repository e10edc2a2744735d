#ifndef FARANDOLE_FRAMEWORKS_TENSORFLOW_XLA_REGISTRY_H_
#define FARANDOLE_FRAMEWORKS_TENSORFLOW_XLA_REGISTRY_H_

#include <cstddef>
#include <string>

namespace farandole::frameworks::tensorflow {

// A custom call as XLA knows it: results, operands, its text, and where a failure goes.
using XlaCall = void (*)(void* out, const void** in, const char* text, size_t bytes, void* status);

// Makes `call` a target for programs on the CPU, in the XLA that is in this process's TensorFlow. Its C interface has
// nothing for that, so that these are C++ symbols of libtensorflow_cc.so.2. Null, or a sentence that says why not.
const char* RegisterWithXla(const char* name, XlaCall call);

// Makes a call fail, from within it.
void FailXlaCall(void* status, const std::string& text);

}  // namespace farandole::frameworks::tensorflow

#endif  // FARANDOLE_FRAMEWORKS_TENSORFLOW_XLA_REGISTRY_H_
