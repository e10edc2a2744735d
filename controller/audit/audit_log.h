#ifndef FARANDOLE_CONTROLLER_AUDIT_AUDIT_LOG_H_
#define FARANDOLE_CONTROLLER_AUDIT_AUDIT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "base/unique_fd.h"
#include "controller/audit/audit_event.h"

namespace farandole::controller::audit {

// A file, or standard output, with a JSON object in each line for each event (docs/security.md). It never waits for who
// reads (for the disk of a file it does, as every write): a line that finds no room is lost, and the next one that does
// says how many were. Nor can anybody fill a disk with it quickly: each namespace, and all those together who have
// shown no token, have kBurst lines and then kPerSecond; the next line of theirs says how many were left out. What the
// controller itself does has no such share.
class AuditLog {
 public:
  static constexpr double kBurst = 20000;
  static constexpr double kPerSecond = 50;
  // A pipe takes so many bytes as a whole or not at all.
  static constexpr size_t kLineBytesMax = 4096;
  // Namespaces whose shares are known; what is left without one shares that of the strangers.
  static constexpr size_t kSharesMax = 4096;

  // "-" is standard output. A file is made with mode 0600, or grows. INVALID_ARGUMENT: it cannot be opened.
  // `now_ms` says the milliseconds since 1970.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path, std::function<int64_t()> now_ms);

  // Any thread.
  void Write(const AuditEvent& event);

 private:
  struct Share {
    double lines = kBurst;
    int64_t at_ms = 0;
    uint64_t left_out = 0;
  };

  AuditLog(UniqueFd fd, std::function<int64_t()> now_ms) : fd_(std::move(fd)), now_ms_(std::move(now_ms)) {}
  // Null: it needs none.
  Share* ShareOf(const AuditEvent& event, int64_t now_ms) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  bool Put(const std::string& line) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const UniqueFd fd_;
  const std::function<int64_t()> now_ms_;
  absl::Mutex mutex_;
  std::map<std::string, Share> shares_ ABSL_GUARDED_BY(mutex_);  // by namespace; "": strangers
  uint64_t lost_ ABSL_GUARDED_BY(mutex_) = 0;
  bool torn_ ABSL_GUARDED_BY(mutex_) = false;  // the last line has no end
};

}  // namespace farandole::controller::audit

#endif  // FARANDOLE_CONTROLLER_AUDIT_AUDIT_LOG_H_
