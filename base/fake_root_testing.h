#ifndef FARANDOLE_BASE_FAKE_ROOT_TESTING_H_
#define FARANDOLE_BASE_FAKE_ROOT_TESTING_H_

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace farandole {

// A folder that stands in for "/" where code reads /proc and /sys; gone with this object.
class FakeRoot {
 public:
  // `folder` is where tests may write. Ends the process if it cannot be made.
  explicit FakeRoot(const std::string& folder) : path_(folder + "/root_XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) std::abort();
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  const std::string& path() const { return path_; }
  void Write(const std::string& file, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(path_ + file).parent_path());
    std::ofstream(path_ + file) << text;
  }

 private:
  std::string path_;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_FAKE_ROOT_TESTING_H_
