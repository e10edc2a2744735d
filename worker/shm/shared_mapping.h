#ifndef FARANDOLE_WORKER_SHM_SHARED_MAPPING_H_
#define FARANDOLE_WORKER_SHM_SHARED_MAPPING_H_

#include <cstdint>
#include <utility>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace farandole::worker::shm {

// Memory of a shared segment as mapped into this process. Owns the mapping; the descriptor is closed once it is there.
class SharedMapping {
 public:
  // INVALID_ARGUMENT: the segment is smaller; RESOURCE_EXHAUSTED: no address space.
  static absl::StatusOr<SharedMapping> Map(UniqueFd fd, int64_t bytes);

  SharedMapping() = default;
  SharedMapping(SharedMapping&& o) noexcept : data_(std::exchange(o.data_, nullptr)), bytes_(o.bytes_) {}
  SharedMapping& operator=(SharedMapping&& o) noexcept {
    std::swap(data_, o.data_);
    std::swap(bytes_, o.bytes_);
    return *this;
  }
  ~SharedMapping();

  // nullptr: nothing is mapped.
  char* data() const { return data_; }
  int64_t bytes() const { return data_ == nullptr ? 0 : bytes_; }

 private:
  SharedMapping(char* data, int64_t bytes) : data_(data), bytes_(bytes) {}

  char* data_ = nullptr;
  int64_t bytes_ = 0;
};

}  // namespace farandole::worker::shm

#endif  // FARANDOLE_WORKER_SHM_SHARED_MAPPING_H_
