#ifndef FARANDOLE_WORKER_CUDA_SHARED_OBJECT_H_
#define FARANDOLE_WORKER_CUDA_SHARED_OBJECT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace farandole::worker::cuda {

// A library that was opened at run time, so that one binary serves machines with and without it. The process keeps it
// as long as this lives. Its symbols stay out of the way of other libraries.
class SharedObject {
 public:
  // A path if it has a slash; otherwise a name that the loader searches for. NOT_FOUND says in the loader's words why
  // there is none.
  static absl::StatusOr<SharedObject> Open(const std::string& name);
  // As Open, but loads nothing: NOT_FOUND if the process has no copy yet. A name is compared with the one that the
  // library was built under, too, wherever its file lies.
  static absl::StatusOr<SharedObject> InProcess(const std::string& name);

  // nullptr: it has no such symbol.
  void* Find(const char* symbol) const;
  // Of the file.
  std::string path() const;

 private:
  struct Close {
    void operator()(void* handle) const;
  };

  explicit SharedObject(void* handle) : handle_(handle) {}
  static absl::StatusOr<SharedObject> OpenWith(const std::string& name, int more_flags);

  std::unique_ptr<void, Close> handle_;
};

}  // namespace farandole::worker::cuda

#endif  // FARANDOLE_WORKER_CUDA_SHARED_OBJECT_H_
