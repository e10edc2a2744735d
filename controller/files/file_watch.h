#ifndef FARANDOLE_CONTROLLER_FILES_FILE_WATCH_H_
#define FARANDOLE_CONTROLLER_FILES_FILE_WATCH_H_

#include <functional>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "base/event_loop.h"
#include "controller/audit/audit_event.h"
#include "controller/files/exchanged.h"
#include "controller/hub/log.h"

namespace farandole::controller::files {

// Reads files again when they have changed. It reads them each time: Kubernetes exchanges a mounted Secret by a link to
// another folder, and what stat() and inotify tell of the path then depends on how it was done.
//
// What they hold now is taken once two looks in a row have found it: an editor may be in the middle of a file, or one
// of two files may be exchanged before the other.
template <typename T>
class FileWatch {
 public:
  static constexpr int64_t kLookMs = 1000;

  struct Plan {
    std::function<absl::StatusOr<T>()> read;  // never waits
    std::string what;                         // "keys": what the files hold, of which there are several
    std::string where;                        // the files
    // What is said of a change.
    std::function<std::string(const T& before, const T& now)> describe;
  };

  // `held` has what the files held. All outlive this.
  FileWatch(Plan plan, Exchanged<T>* held, EventLoop* loop, const hub::Log* log, audit::Audit audit = audit::NoAudit)
      : plan_(std::move(plan)), held_(held), loop_(loop), log_(log), audit_(std::move(audit)) {}
  // The loop has stopped, or not begun.
  ~FileWatch() { loop_->CancelTimerFromLoop(timer_); }
  FileWatch(const FileWatch&) = delete;
  FileWatch& operator=(const FileWatch&) = delete;

  // Looks every kLookMs from then on.
  void WatchFromLoop() {
    timer_ = loop_->AddTimerFromLoop(loop_->Now().PlusMs(kLookMs), [this] {
      LookFromLoop();
      WatchFromLoop();
    });
  }

  // Once. Files that cannot be read, or hold something else, change nothing; that is said once, until they are good
  // again or wrong in another way.
  void LookFromLoop() {
    absl::StatusOr<T> read = plan_.read();
    const absl::optional<T> found = std::exchange(found_, absl::nullopt);
    if (!read.ok()) {
      const std::string complaint(read.status().message());
      if (complaint == complaint_) return;
      complaint_ = complaint;
      return log_->Write(hub::LogLevel::kWarning, absl::StrCat(plan_.what, " stay as they were: ", complaint));
    }
    const typename Exchanged<T>::Shared before = held_->Get();
    if (!(*read == *before)) {
      if (!found || !(*read == *found)) {
        found_ = *std::move(read);
        return;
      }
      const std::string sentence = plan_.describe(*before, *read);
      held_->Set(*std::move(read));
      // A warning, as that is what everybody's log has: from now on others may enter than before.
      log_->Write(hub::LogLevel::kWarning, sentence);
      audit::AuditEvent event;
      event.event = plan_.what + "_exchanged";
      event.why = sentence;
      audit_(event);
    } else if (!complaint_.empty()) {
      log_->Write(hub::LogLevel::kWarning,
                  absl::StrCat(plan_.where, " can be read again and holds the ", plan_.what, " that it did"));
    }
    complaint_.clear();
  }

 private:
  const Plan plan_;
  Exchanged<T>* const held_;
  EventLoop* const loop_;
  const hub::Log* const log_;
  const audit::Audit audit_;
  absl::optional<T> found_;  // by the last look, in place of what holds
  std::string complaint_;    // the last one; "" if the files are good
  EventLoop::TimerId timer_ = 0;
};

}  // namespace farandole::controller::files

#endif  // FARANDOLE_CONTROLLER_FILES_FILE_WATCH_H_
