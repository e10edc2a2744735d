#ifndef FARANDOLE_WORKER_HANDLE_TABLE_H_
#define FARANDOLE_WORKER_HANDLE_TABLE_H_

#include <cstdint>
#include <memory>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"

namespace farandole::worker {

// Handles of objects that the other side of the C ABI holds. They outlive shutdown(): a handle answers until it is
// released. Numbers are never reused. Bounded by what the script does not release, as its own memory is. Any thread.
template <typename T>
class HandleTable {
 public:
  int64_t Add(std::shared_ptr<T> object) {
    absl::MutexLock lock(&mutex_);
    objects_.emplace(++last_, std::move(object));
    return last_;
  }

  // nullptr: never given out, or released.
  std::shared_ptr<T> Find(int64_t handle) const {
    absl::MutexLock lock(&mutex_);
    auto it = objects_.find(handle);
    return it == objects_.end() ? nullptr : it->second;
  }

  void Remove(int64_t handle) {
    std::shared_ptr<T> last;  // destroyed after the lock
    absl::MutexLock lock(&mutex_);
    auto it = objects_.find(handle);
    if (it == objects_.end()) return;
    last = std::move(it->second);
    objects_.erase(it);
  }

 private:
  mutable absl::Mutex mutex_;
  int64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<int64_t, std::shared_ptr<T>> objects_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole::worker

#endif  // FARANDOLE_WORKER_HANDLE_TABLE_H_
