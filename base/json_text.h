#ifndef FARANDOLE_BASE_JSON_TEXT_H_
#define FARANDOLE_BASE_JSON_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farandole {

// A JSON string, with its quotes. `text` is UTF-8 (names are checked where they enter).
std::string JsonString(absl::string_view text);

}  // namespace farandole

#endif  // FARANDOLE_BASE_JSON_TEXT_H_
