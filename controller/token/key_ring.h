#ifndef FARANDOLE_CONTROLLER_TOKEN_KEY_RING_H_
#define FARANDOLE_CONTROLLER_TOKEN_KEY_RING_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "controller/token/controller_keys.h"

namespace farandole::controller::token {

// The keys that hold at present. Any thread.
class KeyRing {
 public:
  using Shared = std::shared_ptr<const ControllerKeys>;

  explicit KeyRing(ControllerKeys keys) { Set(std::move(keys)); }

  Shared Get() const {
    absl::MutexLock lock(&mutex_);
    return keys_;
  }
  void Set(ControllerKeys keys) {
    auto shared = std::make_shared<const ControllerKeys>(std::move(keys));
    absl::MutexLock lock(&mutex_);
    keys_ = std::move(shared);
  }

 private:
  mutable absl::Mutex mutex_;
  Shared keys_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::controller::token

#endif  // FARANDOLE_CONTROLLER_TOKEN_KEY_RING_H_
