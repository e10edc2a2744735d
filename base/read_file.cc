#include "base/read_file.h"

#include <fstream>

namespace farandole {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  // Stream iterators throw when reading fails, as of a folder.
  std::string text;
  std::getline(file, text, '\0');
  return text;
}

}  // namespace farandole
