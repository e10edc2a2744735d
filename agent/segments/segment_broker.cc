#include "agent/segments/segment_broker.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/cgroup.h"

namespace farandole::agent::segments {
namespace {

constexpr char kEntry[] = "segment ";

bool Newer(const GenerationId& a, const GenerationId& b) {
  return std::tie(a.controller_incarnation, a.number) > std::tie(b.controller_incarnation, b.number);
}

constexpr uint64_t kHugePageBytes = 2 << 20;

// Where the host gives huge pages to mappings that ask for them, they have to ask before the memory is there.
void TakeHugePages(int fd, uint64_t size_bytes) {
  const std::string setting = FirstLine("/sys/kernel/mm/transparent_hugepage/shmem_enabled");
  if (size_bytes < kHugePageBytes || !absl::StrContains(setting, "[advise]")) return;
  if (ftruncate(fd, static_cast<off_t>(size_bytes)) != 0) return;
  void* const data = mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (data == MAP_FAILED) return;
  if (madvise(data, size_bytes, MADV_HUGEPAGE) == 0) (void)madvise(data, size_bytes, MADV_POPULATE_WRITE);
  munmap(data, size_bytes);
}

absl::StatusOr<UniqueFd> NewSegment(uint64_t size_bytes) {
  UniqueFd fd(memfd_create("farandole", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd.valid()) return absl::ResourceExhaustedError(absl::StrCat("cannot make a memfd: ", std::strerror(errno)));
  TakeHugePages(fd.get(), size_bytes);
  int error;
  do {
    error = posix_fallocate(fd.get(), 0, static_cast<off_t>(size_bytes));
  } while (error == EINTR);
  if (error != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("the host cannot give ", size_bytes, " bytes of shared memory: ", std::strerror(error)));
  }
  if (fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return absl::InternalError(absl::StrCat("cannot seal a memfd: ", std::strerror(errno)));
  }
  return fd;
}

absl::StatusOr<UniqueFd> Copy(const UniqueFd& fd) {
  UniqueFd copy(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  if (!copy.valid()) return absl::ResourceExhaustedError(absl::StrCat("no descriptor left: ", std::strerror(errno)));
  return copy;
}

}  // namespace

absl::StatusOr<UniqueFd> SegmentBroker::Get(const GenerationId& generation, const std::string& key,
                                            uint64_t size_bytes) {
  if (Newer(generation_, generation)) {
    return absl::FailedPreconditionError(
        absl::StrCat("generation ", generation.number, " is over, the host is in ", generation_.number));
  }
  if (generation != generation_) {
    Clear();
    generation_ = generation;
  }
  auto it = segments_.find(key);
  if (it != segments_.end()) {
    if (it->second.size_bytes == size_bytes) return Copy(it->second.fd);
    return absl::InvalidArgumentError(absl::StrCat("segment '", key, "' has ", it->second.size_bytes,
                                                   " bytes, another worker asks for ", size_bytes));
  }
  if (key.size() > kKeyBytesMax) {
    return absl::InvalidArgumentError(absl::StrCat("a segment's key of ", key.size(), " bytes"));
  }
  if (size_bytes == 0) return absl::InvalidArgumentError(absl::StrCat("segment '", key, "' of 0 bytes"));
  if (segments_.size() >= kSegmentsMax) {
    return absl::ResourceExhaustedError(absl::StrCat("the host holds ", kSegmentsMax, " segments already"));
  }
  // What an agent before this one gave out may be more than this one may use.
  if (bytes_ > bytes_max_ || size_bytes > bytes_max_ - bytes_) {
    return absl::ResourceExhaustedError(absl::StrCat("a segment of ", size_bytes, " bytes beside the ", bytes_,
                                                     " that are there is more than the ", bytes_max_,
                                                     " bytes that the agent may use"));
  }
  absl::StatusOr<UniqueFd> fd = NewSegment(size_bytes);
  if (!fd.ok()) return fd;
  absl::StatusOr<UniqueFd> copy = Copy(*fd);
  if (!copy.ok()) return copy;
  // Before anybody has it.
  store_->PutFromLoop(absl::StrCat(kEntry, key),
                      absl::StrCat(generation.number, " ", generation.controller_incarnation, " ", size_bytes),
                      fd->get());
  segments_[key] = Segment{std::move(*fd), size_bytes};
  bytes_ += size_bytes;
  return copy;
}

bool SegmentBroker::Restore(launcher::KeptEntry* entry) {
  if (!absl::StartsWith(entry->key, kEntry)) return false;
  const std::vector<std::string> parts = absl::StrSplit(entry->value, ' ');
  GenerationId generation;
  uint64_t size_bytes = 0;
  const bool good = parts.size() == 3 && absl::SimpleAtoi(parts[0], &generation.number) &&
                    absl::SimpleAtoi(parts[1], &generation.controller_incarnation) &&
                    absl::SimpleAtoi(parts[2], &size_bytes) && entry->fds.size() == 1;
  if (!good) return false;
  generation_ = generation;
  segments_[entry->key.substr(sizeof kEntry - 1)] = Segment{std::move(entry->fds[0]), size_bytes};
  bytes_ += size_bytes;
  return true;
}

void SegmentBroker::Clear() {
  if (!segments_.empty()) store_->DropFromLoop(kEntry);
  segments_.clear();
  bytes_ = 0;
}

}  // namespace farandole::agent::segments
