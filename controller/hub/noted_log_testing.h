#ifndef FARANDOLE_CONTROLLER_HUB_NOTED_LOG_TESTING_H_
#define FARANDOLE_CONTROLLER_HUB_NOTED_LOG_TESTING_H_

#include <string>
#include <utility>
#include <vector>

#include "controller/hub/log.h"

namespace farandole::controller::hub {

// Keeps what is said, for tests.
class NotedLog final : public Log {
 public:
  using Lines = std::vector<std::string>;

  NotedLog() : Log(LogLevel::kWarning) {}
  void Write(LogLevel, absl::string_view text) const override { lines_.emplace_back(text); }
  // Since the last call.
  Lines Take() const { return std::exchange(lines_, {}); }

 private:
  mutable Lines lines_;
};

}  // namespace farandole::controller::hub

#endif  // FARANDOLE_CONTROLLER_HUB_NOTED_LOG_TESTING_H_
