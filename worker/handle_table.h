#ifndef FARANDOLE_WORKER_HANDLE_TABLE_H_
#define FARANDOLE_WORKER_HANDLE_TABLE_H_

#include <cstdint>
#include <memory>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/synchronization/mutex.h"
#include "worker/operation.h"

namespace farandole {

// Handles that scripts hold. They outlive shutdown(): a handle answers until it is released. Numbers are never reused.
// Bounded by what the script does not release, as its own memory is. Any thread.
class HandleTable {
 public:
  int64_t Add(std::shared_ptr<Operation> operation);
  // nullptr: never given out, or released.
  std::shared_ptr<Operation> Find(int64_t handle) const;
  void Remove(int64_t handle);

 private:
  mutable absl::Mutex mutex_;
  int64_t last_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::flat_hash_map<int64_t, std::shared_ptr<Operation>> operations_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace farandole

#endif  // FARANDOLE_WORKER_HANDLE_TABLE_H_
