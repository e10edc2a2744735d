// Any bytes as one of the four messages that travel (the first byte says which). What is decoded can be encoded, and
// then decoded again.
#include <cstdint>
#include <cstdlib>

#include "absl/strings/string_view.h"
#include "proto/codec/codec.h"

namespace {

template <typename Decode>
void ThereAndBack(absl::string_view bytes, Decode decode) {
  const auto message = decode(bytes);
  if (message.ok() && !decode(Encode(*message)).ok()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const absl::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 4) {
    case 0:
      ThereAndBack(bytes, farandole::DecodeAgentUp);
      break;
    case 1:
      ThereAndBack(bytes, farandole::DecodeAgentDown);
      break;
    case 2:
      ThereAndBack(bytes, farandole::DecodeLocalUp);
      break;
    default:
      ThereAndBack(bytes, farandole::DecodeLocalDown);
  }
  return 0;
}
