#include "controller/key_store.h"

#include "absl/strings/str_cat.h"

namespace farandole {

absl::Status KeyStore::Put(const std::string& key, const std::string& value) {
  if (key.size() > kKeyBytesMax) {
    return absl::ResourceExhaustedError(absl::StrCat("a key has ", key.size(), " bytes, at most ", kKeyBytesMax));
  }
  if (value.size() > kValueBytesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the value of key ", key, " has ", value.size(), " bytes, at most ", kValueBytesMax));
  }
  auto it = values_.find(key);
  if (it != values_.end()) {
    if (it->second == value) return absl::OkStatus();
    return absl::AlreadyExistsError(absl::StrCat("key ", key, " holds another value"));
  }
  if (values_.size() >= kKeysMax) {
    return absl::ResourceExhaustedError(absl::StrCat("this generation holds ", kKeysMax, " keys already"));
  }
  values_.emplace(key, value);
  return absl::OkStatus();
}

absl::StatusOr<std::string> KeyStore::Find(const std::string& key) const {
  auto it = values_.find(key);
  if (it == values_.end()) return absl::NotFoundError(absl::StrCat("nobody has put key ", key.substr(0, kKeyBytesMax)));
  return it->second;
}

}  // namespace farandole
