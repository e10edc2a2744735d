#ifndef FARANDOLE_PROTO_CODEC_UTF8_H_
#define FARANDOLE_PROTO_CODEC_UTF8_H_

#include "absl/strings/string_view.h"

namespace farandole {

// Well-formed UTF-8 as in RFC 3629: no overlong form, no surrogate, nothing above U+10FFFF. What protobuf demands of a
// string field.
bool IsUtf8(absl::string_view text);

}  // namespace farandole

#endif  // FARANDOLE_PROTO_CODEC_UTF8_H_
