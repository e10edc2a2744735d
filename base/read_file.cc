#include "base/read_file.h"

#include <sys/stat.h>

#include <fstream>

namespace farandole {
namespace {

absl::optional<std::string> Read(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  // Stream iterators throw when reading fails, as of a folder.
  std::string text;
  std::getline(file, text, '\0');
  // At the end of an empty one nothing is wrong but that there is nothing.
  if (!file.is_open() || file.bad()) return absl::nullopt;
  return text;
}

}  // namespace

std::string ReadFile(const std::string& path) { return Read(path).value_or(""); }

absl::optional<std::string> ReadRegularFile(const std::string& path) {
  struct stat about;
  if (stat(path.c_str(), &about) != 0 || !S_ISREG(about.st_mode)) return absl::nullopt;
  return Read(path);
}

}  // namespace farandole
