#include "agent/link/token_choice.h"

#include "absl/strings/str_cat.h"
#include "base/auth.h"

namespace farandole::agent::link {

absl::StatusOr<std::string> TokenChoice::InFile() const {
  absl::StatusOr<std::string> token = ReadSecretFile(file_);
  if (token.ok() && !IsTokenText(*token)) return absl::InvalidArgumentError(absl::StrCat(file_, " holds no token"));
  return token;
}

std::string TokenChoice::Next() const {
  const std::string given = file_.empty() ? first_ : InFile().value_or("");
  for (const std::string& token : {given, welcomed_, first_}) {
    if (!token.empty() && refused_.count(token) == 0) return token;
  }
  return "";
}

void TokenChoice::Choose() {
  std::string next = Next();
  if (!next.empty()) current_ = std::move(next);
}

void TokenChoice::Welcomed() {
  welcomed_ = current_;
  refused_.clear();
}

bool TokenChoice::Refused() {
  refused_.insert(current_);
  return refused_.size() < kRefusedMax && !Next().empty();
}

std::string TokenChoice::Fault() const { return file_.empty() ? "" : std::string(InFile().status().message()); }

}  // namespace farandole::agent::link
