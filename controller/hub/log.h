#ifndef FARANDOLE_CONTROLLER_HUB_LOG_H_
#define FARANDOLE_CONTROLLER_HUB_LOG_H_

#include "absl/strings/string_view.h"

namespace farandole::controller::hub {

enum class LogLevel { kDebug, kInfo, kWarning, kError };

// Lines on standard error, one write each, prefixed with program and level. Any thread.
class Log {
 public:
  explicit Log(LogLevel least) : least_(least) {}
  virtual ~Log() = default;
  virtual void Write(LogLevel level, absl::string_view text) const;

 private:
  const LogLevel least_;
};

}  // namespace farandole::controller::hub

#endif  // FARANDOLE_CONTROLLER_HUB_LOG_H_
