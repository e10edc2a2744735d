#include "controller/token/key_file.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace farandole::controller::token {

void KeyFile::WatchFromLoop() {
  timer_ = loop_->AddTimerFromLoop(loop_->Now().PlusMs(kLookMs), [this] {
    LookFromLoop();
    WatchFromLoop();
  });
}

void KeyFile::LookFromLoop() {
  absl::StatusOr<ControllerKeys> read = ReadKeys(-1, path_);
  const ControllerKeys found = std::exchange(found_, {});
  if (!read.ok()) {
    const std::string complaint(read.status().message());
    if (complaint == complaint_) return;
    complaint_ = complaint;
    return log_->Write(hub::LogLevel::kWarning, absl::StrCat("keys stay as they were: ", complaint));
  }
  const KeyRing::Shared before = keys_->Get();
  if (*read != *before) {
    if (*read != found) {
      found_ = *std::move(read);
      return;
    }
    const size_t count = read->size();
    const bool first = read->front() != before->front();
    keys_->Set(*std::move(read));
    // A warning, as that is what everybody's log has: from now on others may enter than before.
    log_->Write(hub::LogLevel::kWarning,
                absl::StrCat("keys read again from ", path_, ": ", count, count == 1 ? " key" : " keys",
                             first ? ", the first is another than before" : ""));
  } else if (!complaint_.empty()) {
    log_->Write(hub::LogLevel::kWarning, absl::StrCat(path_, " can be read again and holds the keys that it did"));
  }
  complaint_.clear();
}

}  // namespace farandole::controller::token
