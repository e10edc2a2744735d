#ifndef FARANDOLE_PROTO_VERSION_H_
#define FARANDOLE_PROTO_VERSION_H_

namespace farandole {

// Release of everything in this tree. python/farandole/version.py holds the same; a test compares them.
inline constexpr char kVersion[] = "0.1.0";

}  // namespace farandole

#endif  // FARANDOLE_PROTO_VERSION_H_
