#ifndef FARANDOLE_BASE_READ_FILE_H_
#define FARANDOLE_BASE_READ_FILE_H_

#include <string>

#include "absl/types/optional.h"

namespace farandole {

// All of a text file; "" if it cannot be read. For files of /proc too, whose process may end meanwhile.
std::string ReadFile(const std::string& path);

// The same, never waiting for a writer as a pipe would have it: none if it is no regular file.
absl::optional<std::string> ReadRegularFile(const std::string& path);

}  // namespace farandole

#endif  // FARANDOLE_BASE_READ_FILE_H_
