#ifndef FARANDOLE_CONTROLLER_RPC_FRAME_LIMIT_H_
#define FARANDOLE_CONTROLLER_RPC_FRAME_LIMIT_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole::controller::rpc {

// Reads along what an HTTP/2 client sends and tells when a block of headers, HEADERS with all its CONTINUATIONs, grows
// beyond a bound, or what is no HTTP/2 comes. gRPC's own bound is not asked before a block is complete, and what it has
// of an unfinished one it parses again with every frame.
class FrameLimit {
 public:
  static constexpr size_t kHeaderBytesMax = 8 << 10;
  static constexpr size_t kFrameBytesMax = 16 << 10;

  // Takes the next bytes; false, from then on for ever: the connection has to end, without these bytes going on.
  bool Allows(absl::string_view bytes);

 private:
  bool FrameBegins();

  size_t preface_bytes_ = 0;  // of the preface, how many have come
  std::string head_;          // of the frame that begins
  size_t payload_left_ = 0;
  size_t header_bytes_ = 0;  // of the block that is open
  bool in_block_ = false;
  bool broken_ = false;
};

}  // namespace farandole::controller::rpc

#endif  // FARANDOLE_CONTROLLER_RPC_FRAME_LIMIT_H_
