#ifndef FARANDOLE_BASE_CUT_TEXT_H_
#define FARANDOLE_BASE_CUT_TEXT_H_

#include <cstddef>

#include "absl/strings/string_view.h"

namespace farandole {

// The first bytes of a text in UTF-8, at most so many: cut before the character that goes beyond. For texts that people
// read; a name or a key that is too long is refused instead, as a part of it is another name.
absl::string_view CutText(absl::string_view text, size_t bytes_max);

}  // namespace farandole

#endif  // FARANDOLE_BASE_CUT_TEXT_H_
