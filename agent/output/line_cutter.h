#ifndef FARANDOLE_AGENT_OUTPUT_LINE_CUTTER_H_
#define FARANDOLE_AGENT_OUTPUT_LINE_CUTTER_H_

#include <string>

#include "absl/strings/string_view.h"

namespace farandole::agent::output {

// Cuts a stream of output into lines and puts a prefix before each. A line ends with "\n", or with "\r" as progress
// bars use it; "\r\n" is one end. A line of more than kLineBytesMax bytes is broken.
class LineCutter {
 public:
  static constexpr size_t kLineBytesMax = 64 << 10;

  explicit LineCutter(std::string prefix) : prefix_(std::move(prefix)) {}

  // The complete lines that `bytes` end; keeps the rest.
  std::string Add(absl::string_view bytes);
  // The rest, as a line.
  std::string Finish();

 private:
  const std::string prefix_;
  std::string line_;
  bool after_return_ = false;  // the last line ended with "\r"
};

}  // namespace farandole::agent::output

#endif  // FARANDOLE_AGENT_OUTPUT_LINE_CUTTER_H_
