#include "worker/shm/shared_mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farandole::worker::shm {
namespace {

constexpr int64_t kHugePageBytes = 2 << 20;

}  // namespace

absl::StatusOr<SharedMapping> SharedMapping::Map(UniqueFd fd, int64_t bytes) {
  struct stat info;
  if (fstat(fd.get(), &info) != 0 || info.st_size < bytes) {
    return absl::InvalidArgumentError(absl::StrCat("the shared segment is smaller than the ", bytes,
                                                   " bytes asked for; are agent and workers of one release?"));
  }
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot map a shared segment of ", bytes, " bytes: ", std::strerror(errno), "; see ulimit -v"));
  }
  // Where the host gives them to those who ask.
  if (bytes >= kHugePageBytes) (void)madvise(data, bytes, MADV_HUGEPAGE);
  return SharedMapping(static_cast<char*>(data), bytes);
}

SharedMapping::~SharedMapping() {
  if (data_ != nullptr) munmap(data_, bytes_);
}

}  // namespace farandole::worker::shm
