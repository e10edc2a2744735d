#ifndef FARANDOLE_CONTROLLER_FILES_LIMITS_FILE_H_
#define FARANDOLE_CONTROLLER_FILES_LIMITS_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "base/event_loop.h"
#include "controller/audit/audit_event.h"
#include "controller/files/exchanged.h"
#include "controller/files/file_watch.h"
#include "controller/hub/log.h"
#include "controller/types/namespace_limits.h"

namespace farandole::controller::files {

// The limits that hold at present.
using LimitRing = Exchanged<LimitTable>;

// INVALID_ARGUMENT: the file cannot be read, or holds something else. Never waits.
absl::StatusOr<LimitTable> ReadLimits(const std::string& path);

// Reads limits again when their file has changed. They count for who comes from then on; what is there stays.
class LimitsFile : public FileWatch<LimitTable> {
 public:
  // `ring` has what the file held. All outlive this.
  LimitsFile(const std::string& path, LimitRing* ring, EventLoop* loop, const hub::Log* log, audit::Audit audit);
};

}  // namespace farandole::controller::files

#endif  // FARANDOLE_CONTROLLER_FILES_LIMITS_FILE_H_
