#ifndef FARANDOLE_CONTROLLER_FILES_EXCHANGED_H_
#define FARANDOLE_CONTROLLER_FILES_EXCHANGED_H_

#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"

namespace farandole::controller::files {

// What holds at present, and may be exchanged as a whole at any time. Any thread.
template <typename T>
class Exchanged {
 public:
  using Shared = std::shared_ptr<const T>;

  explicit Exchanged(T value) { Set(std::move(value)); }

  Shared Get() const {
    absl::MutexLock lock(&mutex_);
    return value_;
  }
  void Set(T value) {
    auto shared = std::make_shared<const T>(std::move(value));
    absl::MutexLock lock(&mutex_);
    value_ = std::move(shared);
  }

 private:
  mutable absl::Mutex mutex_;
  Shared value_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::controller::files

#endif  // FARANDOLE_CONTROLLER_FILES_EXCHANGED_H_
