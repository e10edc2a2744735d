#ifndef FARANDOLE_FRAMEWORKS_TENSORFLOW_COMPILED_H_
#define FARANDOLE_FRAMEWORKS_TENSORFLOW_COMPILED_H_

#include <cstdint>
#include <string>
#include <vector>

#include "frameworks/plugin/call.h"
#include "frameworks/plugin/core_functions.h"

namespace farandole::frameworks::tensorflow {

// A collective of a program that XLA has compiled, on host memory. XLA gives a custom call neither shapes nor types, so
// its text says them.
class Compiled {
 public:
  // The text that python/farandole/tensorflow/compiled.py makes: the number of tensors, a line for each of them (type
  // of the C ABI, number of dimensions and extents of the input, the same of the result), and what plugin::Call reads.
  // False: it is none.
  bool Parse(const std::string& text);

  // Runs it and waits for its end, since XLA's buffers are in use until then. `in` and `out` have one buffer for each
  // tensor, and one int32 more, whose copy makes later collectives of the program wait for this one: ranks would
  // otherwise wait for different ones. Empty, or the failure as all front ends say it. `life`: as in plugin::Call.
  std::string Run(const plugin::CoreFunctions& core, int life, const void* const* in, void* const* out) const;

 private:
  struct Tensor {
    int dtype = 0;
    std::vector<int64_t> shape;
    std::vector<int64_t> result_shape;
  };

  plugin::Call call_;
  std::vector<Tensor> tensors_;
};

}  // namespace farandole::frameworks::tensorflow

#endif  // FARANDOLE_FRAMEWORKS_TENSORFLOW_COMPILED_H_
