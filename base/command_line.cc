#include "base/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/address.h"

namespace farandole {
namespace {

constexpr int kUsageErrorCode = 2;
constexpr char kHelp[] = "--help";
constexpr char kVersionOption[] = "--version";

const Option* FindOption(const Program& program, const std::string& name) {
  for (const Option& option : program.options) {
    if (option.name == name) return &option;
  }
  return nullptr;
}

std::string Left(const Option& option) {
  return option.value.empty() ? option.name : absl::StrCat(option.name, " ", option.value);
}

// Whole, or false.
bool Print(int fd, absl::string_view text) {
  return write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size());
}

}  // namespace

std::string HelpText(const Program& program) {
  std::string text = absl::StrCat("usage: ", program.name, " ", program.synopsis, "\n", program.about);
  size_t width = 0;
  for (const Option& option : program.options) width = std::max(width, Left(option).size());
  for (const Option& option : program.options) {
    const std::string left = Left(option);
    absl::StrAppend(&text, "  ", left, std::string(width - left.size() + 2, ' '), option.text, "\n");
  }
  return absl::StrCat(text, "  ", kVersionOption, ", ", kHelp, "\n");
}

std::optional<int> AnswerHelp(const Program& program, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") break;
    if (word == kHelp) return Print(STDOUT_FILENO, HelpText(program)) ? 0 : 1;
    if (word == kVersionOption) {
      return Print(STDOUT_FILENO, absl::StrCat(program.name, " ", program.version, "\n")) ? 0 : 1;
    }
  }
  return std::nullopt;
}

int UsageError(const Program& program, const absl::Status& status) {
  Print(STDERR_FILENO,
        absl::StrCat(program.name, ": ", status.message(), "; ", program.name, " --help says what there is\n"));
  return kUsageErrorCode;
}

absl::StatusOr<CommandLine> CommandLine::Split(const Program& program, const std::vector<std::string>& words) {
  CommandLine line;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--" && program.takes_command) {
      line.command_.assign(words.begin() + i + 1, words.end());
      if (line.command_.empty()) return absl::InvalidArgumentError("no command after --");
      return line;
    }
    const size_t equals = words[i].find('=');
    const bool joined = equals != std::string::npos;
    const std::string name = words[i].substr(0, equals);
    const Option* const option = FindOption(program, name);
    if (option == nullptr) return absl::InvalidArgumentError(absl::StrCat("unknown argument '", words[i], "'"));
    const bool flag = option->value.empty();
    if (flag && joined) return absl::InvalidArgumentError(absl::StrCat(name, " takes no value"));
    if (!flag && !joined && i + 1 == words.size()) {
      return absl::InvalidArgumentError(absl::StrCat(name, " needs a value"));
    }
    line.values_[name] = flag ? "" : joined ? words[i].substr(equals + 1) : words[++i];
  }
  return line;
}

const std::string* CommandLine::Find(const std::string& name) const {
  const auto it = values_.find(name);
  return it == values_.end() ? nullptr : &it->second;
}

void CommandLine::Text(const std::string& name, std::string* out) const {
  if (const std::string* const text = Find(name)) *out = *text;
}

void CommandLine::Descriptor(const std::string& name, int* fd) {
  const std::string* const text = Find(name);
  if (text == nullptr) return;
  int value;
  if (absl::SimpleAtoi(*text, &value) && value >= 0) {
    *fd = value;
  } else {
    Refuse(name, "the number of a descriptor");
  }
}

void CommandLine::Address(const std::string& name, std::string* address) {
  const std::string* const text = Find(name);
  if (text == nullptr) return;
  const absl::optional<HostAndPort> split = SplitAddress(*text);
  int port;
  if (split && !split->host.empty() && absl::SimpleAtoi(split->port, &port) && port >= 0 && port <= UINT16_MAX) {
    *address = *text;
  } else {
    Refuse(name, "HOST:PORT");
  }
}

void CommandLine::Refuse(const std::string& name, const std::string& what) {
  const std::string* const text = Find(name);
  if (!status_.ok()) return;
  status_ = absl::InvalidArgumentError(
      absl::StrCat(name, " must be ", what, text == nullptr ? "" : absl::StrCat(", not '", *text, "'")));
}

}  // namespace farandole
