#include "worker/handle_table.h"

#include <utility>

namespace farandole {

int64_t HandleTable::Add(std::shared_ptr<Operation> operation) {
  absl::MutexLock lock(&mutex_);
  operations_.emplace(++last_, std::move(operation));
  return last_;
}

std::shared_ptr<Operation> HandleTable::Find(int64_t handle) const {
  absl::MutexLock lock(&mutex_);
  auto it = operations_.find(handle);
  return it == operations_.end() ? nullptr : it->second;
}

void HandleTable::Remove(int64_t handle) {
  std::shared_ptr<Operation> last;  // destroyed after the lock
  absl::MutexLock lock(&mutex_);
  auto it = operations_.find(handle);
  if (it == operations_.end()) return;
  last = std::move(it->second);
  operations_.erase(it);
}

}  // namespace farandole
