#include "proto/codec/utf8.h"

#include <cstdint>

namespace farandole {
namespace {

// Length of the character that begins with `lead` and the range of its second byte; length 0 if none begins so.
struct Lead {
  int length;
  uint8_t low;
  uint8_t high;
};

Lead Classify(uint8_t lead) {
  if (lead < 0x80) return {1, 0, 0};
  if (lead < 0xC2) return {0, 0, 0};
  if (lead < 0xE0) return {2, 0x80, 0xBF};
  if (lead == 0xE0) return {3, 0xA0, 0xBF};
  if (lead == 0xED) return {3, 0x80, 0x9F};
  if (lead < 0xF0) return {3, 0x80, 0xBF};
  if (lead == 0xF0) return {4, 0x90, 0xBF};
  if (lead < 0xF4) return {4, 0x80, 0xBF};
  if (lead == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

bool IsUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const Lead lead = Classify(static_cast<uint8_t>(text[i]));
    if (lead.length == 0 || text.size() - i < static_cast<size_t>(lead.length)) return false;
    for (int k = 1; k < lead.length; ++k) {
      const uint8_t byte = static_cast<uint8_t>(text[i + k]);
      if (byte < (k == 1 ? lead.low : 0x80) || byte > (k == 1 ? lead.high : 0xBF)) return false;
    }
    i += lead.length;
  }
  return true;
}

}  // namespace farandole
