#ifndef FARANDOLE_TRANSPORT_PLAIN_MEMORY_H_
#define FARANDOLE_TRANSPORT_PLAIN_MEMORY_H_

#include "transport/channel.h"

namespace farandole::transport {

// Memory for media that need no registration.
class PlainMemory final : public Memory {
 public:
  PlainMemory(void* data, size_t bytes) : data_(static_cast<char*>(data)), bytes_(bytes) {}
  char* data() const override { return data_; }
  size_t size() const override { return bytes_; }

 private:
  char* const data_;
  const size_t bytes_;
};

}  // namespace farandole::transport

#endif  // FARANDOLE_TRANSPORT_PLAIN_MEMORY_H_
