#ifndef FARANDOLE_CONTROLLER_KEY_STORE_H_
#define FARANDOLE_CONTROLLER_KEY_STORE_H_

#include <cstdint>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace farandole {

// What the members of one generation leave for each other. Written once, never changed, gone with the generation.
class KeyStore {
 public:
  static constexpr size_t kKeyBytesMax = 256;
  static constexpr size_t kValueBytesMax = 64 << 10;
  static constexpr size_t kKeysMax = 4096;

  // The same value again is no error. ALREADY_EXISTS, RESOURCE_EXHAUSTED (one of the bounds above).
  absl::Status Put(const std::string& key, const std::string& value);
  // NOT_FOUND.
  absl::StatusOr<std::string> Find(const std::string& key) const;

 private:
  absl::flat_hash_map<std::string, std::string> values_;
};

}  // namespace farandole

#endif  // FARANDOLE_CONTROLLER_KEY_STORE_H_
