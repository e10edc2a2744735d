#ifndef FARANDOLE_TESTS_FUZZ_RECORD_H_
#define FARANDOLE_TESTS_FUZZ_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace farandole::fuzz {

// Inputs that play several messages are records: a byte that says what to do, the length in two bytes (the lower one
// first), and as many bytes.
struct Record {
  uint8_t what = 0;
  absl::string_view bytes;
};

// Takes the first record off `rest`; a length beyond the end means all that is left. False at the end.
inline bool TakeRecord(absl::string_view* rest, Record* record) {
  if (rest->size() < 3) return false;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>((*rest)[i]); };
  const size_t length = byte(1) | size_t{byte(2)} << 8;
  record->what = byte(0);
  record->bytes = rest->substr(3, length);
  rest->remove_prefix(3 + record->bytes.size());
  return true;
}

inline std::string WriteRecord(uint8_t what, absl::string_view bytes) {
  std::string record = {static_cast<char>(what), static_cast<char>(bytes.size() & 0xff),
                        static_cast<char>(bytes.size() >> 8)};
  return record.append(bytes.data(), bytes.size());
}

}  // namespace farandole::fuzz

#endif  // FARANDOLE_TESTS_FUZZ_RECORD_H_
