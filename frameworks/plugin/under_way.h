#ifndef FARANDOLE_FRAMEWORKS_PLUGIN_UNDER_WAY_H_
#define FARANDOLE_FRAMEWORKS_PLUGIN_UNDER_WAY_H_

#include <cstdint>

#include "frameworks/plugin/core_functions.h"

namespace farandole::frameworks::plugin {

// That a kernel runs, from its construction to its end: a caller that waits for it cannot see Python's signals.
class UnderWay {
 public:
  UnderWay();
  ~UnderWay();
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;

  // From the first call on, kernels that last for half a second after SIGINT, or SIGTERM where that ends the process,
  // make this process leave the job (farandole_shutdown_begin), which ends them: nothing else gives the
  // framework's memory back. `core` stays.
  static void EndOnInterrupt(const CoreFunctions* core);

 private:
  const uint64_t number_;
};

}  // namespace farandole::frameworks::plugin

#endif  // FARANDOLE_FRAMEWORKS_PLUGIN_UNDER_WAY_H_
