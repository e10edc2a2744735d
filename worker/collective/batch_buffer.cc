#include "worker/collective/batch_buffer.h"

#include <sys/mman.h>

#include <algorithm>

namespace farandole::worker::collective {
namespace {

// Growing in steps keeps a script whose batches vary from mapping anew each time.
constexpr int64_t kStepBytes = 1 << 20;

}  // namespace

BatchBuffer::~BatchBuffer() { Free(); }

void BatchBuffer::Free() {
  if (data_ == nullptr) return;
  if (watcher_ != nullptr) watcher_->Goes(data_);
  munmap(data_, bytes_);
}

void BatchBuffer::Watch(Watcher* watcher) {
  if (data_ != nullptr && watcher_ != nullptr) watcher_->Goes(data_);
  watcher_ = watcher;
  if (data_ != nullptr && watcher_ != nullptr) watcher_->Comes(data_, bytes_);
}

void* BatchBuffer::Get(int64_t bytes) {
  if (bytes <= bytes_) return data_;
  if (bytes > INT64_MAX - kStepBytes) return nullptr;
  const int64_t wanted = (std::max<int64_t>(bytes, 2 * bytes_) + kStepBytes - 1) / kStepBytes * kStepBytes;
  void* data = mmap(nullptr, wanted, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  Free();
  data_ = data;
  bytes_ = wanted;
  if (watcher_ != nullptr) watcher_->Comes(data_, bytes_);
  return data_;
}

}  // namespace farandole::worker::collective
