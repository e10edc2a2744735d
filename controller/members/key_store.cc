#include "controller/members/key_store.h"

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace farandole::controller::members {
namespace {

// The number that `text` begins with, which is cut off; 0 if there is none.
template <typename T>
T TakeNumber(absl::string_view* text) {
  size_t digits = 0;
  while (digits < text->size() && absl::ascii_isdigit((*text)[digits])) ++digits;
  T number = 0;
  const bool fits = absl::SimpleAtoi(text->substr(0, digits), &number);
  text->remove_prefix(digits);
  return fits ? number : 0;
}

}  // namespace

KeyStore::Scope KeyStore::ScopeOf(const std::string& key) {
  absl::string_view rest = key;
  const uint32_t process_set = TakeNumber<uint32_t>(&rest);
  if (process_set == 0 || rest.empty() || rest[0] != '.') return {process_set, 0};
  rest.remove_prefix(1);
  return {process_set, TakeNumber<uint64_t>(&rest)};
}

absl::Status KeyStore::Put(const std::string& key, const std::string& value, size_t shared_elsewhere) {
  if (key.size() > kKeyBytesMax) {
    return absl::ResourceExhaustedError(absl::StrCat("a key has ", key.size(), " bytes, at most ", kKeyBytesMax));
  }
  if (value.size() > kValueBytesMax) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the value of key ", key, " has ", value.size(), " bytes, at most ", kValueBytesMax));
  }
  const Scope scope = ScopeOf(key);
  const auto values = scopes_.find(scope);
  if (values != scopes_.end()) {
    const auto it = values->second.find(key);
    if (it != values->second.end()) {
      if (it->second == value) return absl::OkStatus();
      return absl::AlreadyExistsError(absl::StrCat("key ", key, " holds another value"));
    }
  }
  const size_t bytes = key.size() + value.size() + kBytesPerKey;
  const size_t taken = bytes_ + shared_elsewhere, bytes_max = kBytesMax + bytes_of_members_;
  if (taken + bytes > bytes_max) {
    return absl::ResourceExhaustedError(absl::StrCat("the members of this job have stored ", taken,
                                                     " bytes of at most ", bytes_max,
                                                     " already; remove process sets that are not needed any more"));
  }
  scopes_[scope].emplace(key, value);
  bytes_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<std::string> KeyStore::Find(const std::string& key) const {
  const auto values = scopes_.find(ScopeOf(key));
  if (values != scopes_.end()) {
    const auto it = values->second.find(key);
    if (it != values->second.end()) return it->second;
  }
  return absl::NotFoundError(absl::StrCat("nobody has put key ", key.substr(0, kKeyBytesMax)));
}

void KeyStore::Free(const std::function<bool(uint64_t)>& completed) {
  for (auto removal = removals_.begin(); removal != removals_.end();) {
    const auto [process_set, item] = *removal;
    if (!completed(item)) {
      ++removal;
      continue;
    }
    // A later bearer of the number was made by a later item.
    const auto first = scopes_.lower_bound({process_set, 0}), last = scopes_.lower_bound({process_set, item});
    for (auto scope = first; scope != last; ++scope) {
      for (const auto& [key, value] : scope->second) bytes_ -= key.size() + value.size() + kBytesPerKey;
    }
    scopes_.erase(first, last);
    removal = removals_.erase(removal);
  }
}

}  // namespace farandole::controller::members
