// Any bytes on a connection of local.proto, in pieces of the length that the first byte says.
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "proto/codec/frame.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2 || size > 65536) return 0;
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) std::abort();
  farandole::UniqueFd peer(ends[0]);
  farandole::FrameSocket socket{farandole::UniqueFd(ends[1])};
  std::vector<farandole::Frame> frames;
  const size_t piece = size_t{data[0]} + 1;
  for (size_t at = 1; at < size; at += piece) {
    if (send(peer.get(), data + at, std::min(piece, size - at), MSG_NOSIGNAL) < 0) std::abort();
    if (!socket.Receive(&frames).ok()) return 0;
  }
  return 0;
}
