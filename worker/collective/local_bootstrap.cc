#include "worker/collective/local_bootstrap.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace farandole::worker::collective {
namespace {

constexpr int kKeys = 512;
constexpr int kKeyBytes = 64;
constexpr int kValueBytes = 512;

struct Entry {
  char key[kKeyBytes];
  char value[kValueBytes];
};

}  // namespace

struct LocalBootstrap::Table {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  int keys;
  Entry entries[kKeys];
  char segment_keys[kSegments][kKeyBytes];
};

LocalBootstrap::LocalBootstrap() {
  void* memory = mmap(nullptr, sizeof(Table), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  table_ = static_cast<Table*>(memory);
  pthread_mutexattr_t mutex;
  pthread_mutexattr_init(&mutex);
  pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
  pthread_mutex_init(&table_->mutex, &mutex);
  pthread_condattr_t condition;
  pthread_condattr_init(&condition);
  pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
  pthread_condattr_setclock(&condition, CLOCK_MONOTONIC);
  pthread_cond_init(&table_->changed, &condition);
  for (UniqueFd& fd : segments_) fd.Reset(memfd_create("farandole-local", MFD_CLOEXEC));
}

LocalBootstrap::~LocalBootstrap() { munmap(table_, sizeof(Table)); }

absl::Status LocalBootstrap::Put(const std::string& key, const std::string& value) {
  if (key.size() >= kKeyBytes || value.size() >= kValueBytes) return absl::InvalidArgumentError("too long");
  pthread_mutex_lock(&table_->mutex);
  absl::Status status;
  for (int i = 0; i < table_->keys; ++i) {
    if (key == table_->entries[i].key && value != table_->entries[i].value) {
      status = absl::AlreadyExistsError(absl::StrCat("key ", key, " holds another value"));
    }
  }
  if (status.ok() && table_->keys == kKeys) status = absl::ResourceExhaustedError("no room for another key");
  if (status.ok()) {
    Entry& entry = table_->entries[table_->keys++];
    std::memcpy(entry.key, key.c_str(), key.size() + 1);
    std::memcpy(entry.value, value.c_str(), value.size() + 1);
    pthread_cond_broadcast(&table_->changed);
  }
  pthread_mutex_unlock(&table_->mutex);
  return status;
}

absl::StatusOr<std::string> LocalBootstrap::Get(const std::string& key, uint32_t timeout_ms) {
  timespec deadline;
  clock_gettime(CLOCK_MONOTONIC, &deadline);
  const int64_t ns = deadline.tv_nsec + int64_t{timeout_ms} * 1000000;
  deadline.tv_sec += ns / 1000000000;
  deadline.tv_nsec = ns % 1000000000;
  pthread_mutex_lock(&table_->mutex);
  absl::StatusOr<std::string> found = absl::DeadlineExceededError(absl::StrCat("nobody put ", key));
  for (int error = 0; !found.ok() && error == 0;) {
    for (int i = 0; i < table_->keys; ++i) {
      if (key == table_->entries[i].key) found = std::string(table_->entries[i].value);
    }
    if (!found.ok()) error = pthread_cond_timedwait(&table_->changed, &table_->mutex, &deadline);
  }
  pthread_mutex_unlock(&table_->mutex);
  return found;
}

absl::StatusOr<UniqueFd> LocalBootstrap::Segment(const std::string& key, uint64_t size_bytes) {
  if (key.empty() || key.size() >= kKeyBytes) return absl::InvalidArgumentError("bad key");
  pthread_mutex_lock(&table_->mutex);
  int at = 0;
  while (at < kSegments && table_->segment_keys[at][0] != '\0' && key != table_->segment_keys[at]) ++at;
  absl::StatusOr<UniqueFd> result = absl::ResourceExhaustedError("no room for another segment, or another size");
  if (at < kSegments) {
    std::memcpy(table_->segment_keys[at], key.c_str(), key.size() + 1);
    struct stat info;
    const int fd = segments_[at].get();
    if (fstat(fd, &info) == 0 && (info.st_size == static_cast<off_t>(size_bytes) ||
                                  (info.st_size == 0 && posix_fallocate(fd, 0, size_bytes) == 0))) {
      result = UniqueFd(fcntl(fd, F_DUPFD_CLOEXEC, 0));
    }
  }
  pthread_mutex_unlock(&table_->mutex);
  return result;
}

}  // namespace farandole::worker::collective
