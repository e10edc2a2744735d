#include "transport/transport.h"

namespace farandole::transport {
namespace {

class PlainMemory final : public Memory {
 public:
  PlainMemory(void* data, size_t bytes) : data_(static_cast<char*>(data)), bytes_(bytes) {}
  char* data() const override { return data_; }
  size_t size() const override { return bytes_; }

 private:
  char* const data_;
  const size_t bytes_;
};

}  // namespace

std::unique_ptr<Memory> Transport::Unregistered(void* data, size_t bytes) {
  return std::make_unique<PlainMemory>(data, bytes);
}

}  // namespace farandole::transport
