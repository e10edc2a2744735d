#ifndef FARANDOLE_WORKER_COLLECTIVE_BATCH_BUFFER_H_
#define FARANDOLE_WORKER_COLLECTIVE_BATCH_BUFFER_H_

#include <cstdint>

namespace farandole::worker::collective {

// Memory in which the tensors of a batch lie side by side when the communicator has none of its own for that. Grows to
// the largest batch and stays; page-aligned. One thread at a time.
class BatchBuffer {
 public:
  // Who wants to know of the memory while there is some, to register it once.
  class Watcher {
   public:
    virtual ~Watcher() = default;
    virtual void Comes(void* data, int64_t bytes) = 0;
    virtual void Goes(void* data) = 0;
  };

  BatchBuffer() = default;
  ~BatchBuffer();
  BatchBuffer(const BatchBuffer&) = delete;
  BatchBuffer& operator=(const BatchBuffer&) = delete;

  // nullptr: the kernel has no memory for it. What was there before is lost when it grows.
  void* Get(int64_t bytes);

  // From here on; null: nobody. The watcher outlives the buffer or the next call.
  void Watch(Watcher* watcher);

 private:
  void Free();

  Watcher* watcher_ = nullptr;
  void* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace farandole::worker::collective

#endif  // FARANDOLE_WORKER_COLLECTIVE_BATCH_BUFFER_H_
