#ifndef FARANDOLE_AGENT_LINK_TOKEN_CHOICE_H_
#define FARANDOLE_AGENT_LINK_TOKEN_CHOICE_H_

#include <cstddef>
#include <set>
#include <string>
#include <utility>

#include "absl/status/statusor.h"

namespace farandole::agent::link {

// With which token an agent connects: as its file has it now, or where that one has been refused, or the file gives
// none, with that of the last welcome, or the first one. So a token may be exchanged while a job runs, before its
// controller knows of it, too, and a file that is spoilt ends no job.
class TokenChoice {
 public:
  // Whoever has refused so many since the last welcome will refuse the next one as well.
  static constexpr size_t kRefusedMax = 16;

  // `file`: where the first one was read; "": from no file.
  TokenChoice(std::string first, std::string file)
      : first_(first), file_(std::move(file)), current_(std::move(first)) {}

  const std::string& current() const { return current_; }
  // For a new connection. When all have been refused, the current one stays.
  void Choose();
  void Welcomed();
  // False: there is no other one to try.
  bool Refused();
  // Why the file gives none now; "" if it does, or if there is no file.
  std::string Fault() const;

 private:
  absl::StatusOr<std::string> InFile() const;
  // Empty: all have been refused.
  std::string Next() const;

  const std::string first_;
  const std::string file_;
  std::string current_;
  std::string welcomed_;
  std::set<std::string> refused_;  // since the last welcome
};

}  // namespace farandole::agent::link

#endif  // FARANDOLE_AGENT_LINK_TOKEN_CHOICE_H_
