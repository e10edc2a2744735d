#ifndef FARANDOLE_TRANSPORT_UNREGISTERED_TESTING_H_
#define FARANDOLE_TRANSPORT_UNREGISTERED_TESTING_H_

#include <cstddef>
#include <memory>

#include "transport/transport.h"

namespace farandole::transport {

// Memory for tests of media that read and write any.
class UnregisteredTesting : public Transport {
 public:
  static std::unique_ptr<Memory> Make(void* data, size_t bytes) { return Unregistered(data, bytes); }
};

}  // namespace farandole::transport

#endif  // FARANDOLE_TRANSPORT_UNREGISTERED_TESTING_H_
