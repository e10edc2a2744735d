#include "controller/rpc/frame_limit.h"

#include <algorithm>

namespace farandole::controller::rpc {
namespace {

constexpr absl::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr size_t kFrameHeadBytes = 9;
constexpr int kHeaders = 1;
constexpr int kContinuation = 9;
constexpr int kEndHeaders = 4;

}  // namespace

bool FrameLimit::Allows(absl::string_view bytes) {
  while (!bytes.empty() && !broken_) {
    size_t taken = 1;
    if (preface_bytes_ < kPreface.size()) {
      broken_ = bytes.front() != kPreface[preface_bytes_++];
    } else if (payload_left_ > 0) {
      taken = std::min(payload_left_, bytes.size());
      payload_left_ -= taken;
    } else {
      head_.push_back(bytes.front());
      broken_ = head_.size() == kFrameHeadBytes && !FrameBegins();
    }
    bytes.remove_prefix(taken);
  }
  return !broken_;
}

bool FrameLimit::FrameBegins() {
  const auto byte = [this](size_t i) { return static_cast<unsigned char>(head_[i]); };
  payload_left_ = byte(0) << 16 | byte(1) << 8 | byte(2);
  const int type = byte(3);
  const bool ends = (byte(4) & kEndHeaders) != 0;
  head_.clear();
  // Between the frames of a block nothing else may come, and a block begins with HEADERS.
  if (payload_left_ > kFrameBytesMax || in_block_ != (type == kContinuation)) return false;
  if (type != kHeaders && type != kContinuation) return true;
  header_bytes_ = (in_block_ ? header_bytes_ : 0) + payload_left_;
  in_block_ = !ends;
  return header_bytes_ <= kHeaderBytesMax;
}

}  // namespace farandole::controller::rpc
