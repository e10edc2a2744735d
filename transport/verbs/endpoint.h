#ifndef FARANDOLE_TRANSPORT_VERBS_ENDPOINT_H_
#define FARANDOLE_TRANSPORT_VERBS_ENDPOINT_H_

#include <cstdint>

#include "transport/verbs/port_choice.h"

namespace farandole::transport::verbs {

// What the peer must know of a queue pair to connect its own to it.
struct Endpoint {
  uint32_t number = 0;
  uint32_t first_packet = 0;
  Gid gid{};
  uint16_t lid = 0;
  int mtu = 0;  // bytes
  bool ethernet = false;
  // Place of its device among those of its end, for keys of memory.
  int device = 0;
};

}  // namespace farandole::transport::verbs

#endif  // FARANDOLE_TRANSPORT_VERBS_ENDPOINT_H_
