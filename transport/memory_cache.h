#ifndef FARANDOLE_TRANSPORT_MEMORY_CACHE_H_
#define FARANDOLE_TRANSPORT_MEMORY_CACHE_H_

#include <cstddef>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "transport/channel.h"
#include "transport/transport.h"

namespace farandole::transport {

// Registers memory with a transport: once, what is kept here until it is dropped; for one use, any other. A medium that
// pins pages takes long for that, and cannot tell when a script frees a tensor and gets other pages at its address: so
// only memory whose end its owner tells stays registered. One thread at a time.
class MemoryCache {
 public:
  // The transport outlives this object.
  explicit MemoryCache(Transport* transport) : transport_(transport) {}

  // Registers memory that lives until it is dropped, also what is part of it. Kept memory does not overlap. Status as
  // Transport::Register.
  absl::Status Keep(void* data, size_t bytes);
  // Before it is freed, when nothing uses it; nothing if it is not kept.
  void Drop(const void* data);

  // Memory for one use: these bytes lie at `offset` of `memory`, as long as this object lives and the bytes are kept.
  struct Use {
    const Memory* memory = nullptr;
    size_t offset = 0;
    std::unique_ptr<Memory> own;  // null: kept

    Block Part(size_t from, size_t bytes) const { return {memory, offset + from, bytes}; }
  };
  absl::StatusOr<Use> Get(void* data, size_t bytes);

 private:
  Transport* const transport_;
  std::map<const char*, std::unique_ptr<Memory>> kept_;  // by first byte
};

}  // namespace farandole::transport

#endif  // FARANDOLE_TRANSPORT_MEMORY_CACHE_H_
