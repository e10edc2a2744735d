#ifndef FARANDOLE_BASE_COMMAND_LINE_H_
#define FARANDOLE_BASE_COMMAND_LINE_H_

#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace farandole {

// One option of a program, and its line in the help.
struct Option {
  std::string name;   // with its dashes
  std::string value;  // what stands for the value in the help; "": a flag, which takes none
  std::string text;   // what it is for, and in parentheses what holds without it
};

// What a program may be told. --help and --version are every program's own and not listed.
struct Program {
  std::string name;  // as it is called: "farandole-controller query"
  std::string version;
  std::string synopsis;  // what follows the name
  std::string about;     // sentences, with their newlines
  std::vector<Option> options;
  bool takes_command = false;  // behind "--"
};

// The answer to --help; ends with a newline.
std::string HelpText(const Program& program);

// Answers --help and --version on stdout, if one of them stands before any "--"; then the exit code of the program.
std::optional<int> AnswerHelp(const Program& program, const std::vector<std::string>& words);

// Says on stderr what is wrong, in a line; the exit code of the program.
int UsageError(const Program& program, const absl::Status& status);

// The words of a command line by option: "--name VALUE", "--name=VALUE" and flags. Of an option that is there twice the
// last one holds. What reads values keeps *out if the option is not there; the first complaint is kept for status().
class CommandLine {
 public:
  // `words` without the program's name. INVALID_ARGUMENT: a word that is no option, an option without its value, a flag
  // with one, "--" without a command.
  static absl::StatusOr<CommandLine> Split(const Program& program, const std::vector<std::string>& words);

  bool Has(const std::string& name) const { return values_.count(name) > 0; }
  void Text(const std::string& name, std::string* out) const;
  // From `low` to `high`; integers in decimal.
  template <typename T>
  void Number(const std::string& name, T low, T high, T* out) {
    const std::string* const text = Find(name);
    if (text == nullptr) return;
    T value;
    if (ToNumber(*text, &value) && value >= low && value <= high) {
      *out = value;
      return;
    }
    Refuse(name, absl::StrCat("a number from ", low, " to ", high));
  }
  void Descriptor(const std::string& name, int* fd);
  // HOST:PORT, with brackets around an IPv6 address.
  void Address(const std::string& name, std::string* address);
  // Complains of a value that only its reader can judge: "NAME must be WHAT, not 'VALUE'".
  void Refuse(const std::string& name, const std::string& what);

  // OK, or the first complaint as INVALID_ARGUMENT.
  const absl::Status& status() const { return status_; }
  // What stands behind "--".
  const std::vector<std::string>& command() const { return command_; }

 private:
  CommandLine() = default;
  const std::string* Find(const std::string& name) const;
  template <typename T>
  static bool ToNumber(const std::string& text, T* value) {
    if constexpr (std::is_floating_point_v<T>) {
      return absl::SimpleAtod(text, value);
    } else {
      return absl::SimpleAtoi(text, value);
    }
  }

  std::map<std::string, std::string> values_;
  std::vector<std::string> command_;
  absl::Status status_;
};

}  // namespace farandole

#endif  // FARANDOLE_BASE_COMMAND_LINE_H_
