#include "agent/output/line_cutter.h"

#include "absl/strings/str_cat.h"

namespace farandole::agent::output {

std::string LineCutter::Add(absl::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    if (after_return_ && line_.empty() && bytes[0] == '\n') {
      out.push_back('\n');
      bytes.remove_prefix(1);
      after_return_ = false;
      continue;
    }
    after_return_ = false;
    const size_t room = kLineBytesMax - line_.size();
    const size_t end = bytes.substr(0, room).find_first_of("\r\n");
    const size_t taken = end != absl::string_view::npos ? end + 1 : std::min(room, bytes.size());
    absl::StrAppend(&line_, bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    if (end != absl::string_view::npos) {
      after_return_ = line_.back() == '\r';
      absl::StrAppend(&out, prefix_, line_);
      line_.clear();
    } else if (line_.size() == kLineBytesMax) {
      absl::StrAppend(&out, Finish());
    }
  }
  return out;
}

std::string LineCutter::Finish() {
  if (line_.empty()) return "";
  std::string out = absl::StrCat(prefix_, line_, "\n");
  line_.clear();
  return out;
}

}  // namespace farandole::agent::output
