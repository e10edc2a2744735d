#include "base/command_line.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <string>
#include <vector>

namespace farandole {
namespace {

const Program& Sample(bool takes_command = false) {
  static const std::vector<Option> options = {{"--listen", "HOST:PORT", "where"},
                                              {"--n", "N", "how many (3)"},
                                              {"--in", "FD", "from"},
                                              {"--loud", "", "say so"}};
  static const Program plain = {"sample", "1.2.3", "[options]", "Shows.\n", options, false};
  static const Program command = {"sample", "1.2.3", "[options] [-- COMMAND]", "Shows.\n", options, true};
  return takes_command ? command : plain;
}

std::string SplitError(const std::vector<std::string>& words, bool takes_command = false) {
  const auto line = CommandLine::Split(Sample(takes_command), words);
  EXPECT_TRUE(absl::IsInvalidArgument(line.status()));
  return std::string(line.status().message());
}

CommandLine Line(const std::vector<std::string>& words) { return *CommandLine::Split(Sample(), words); }

template <typename T>
std::string NumberError(const std::string& value, T low, T high) {
  CommandLine line = Line({"--n", value});
  T out = low;
  line.Number("--n", low, high, &out);
  EXPECT_EQ(out, low) << "stays";
  EXPECT_TRUE(absl::IsInvalidArgument(line.status()));
  return std::string(line.status().message());
}

TEST(CommandLineTest, ValuesFollowOrAreJoinedAndTheLastOneHolds) {
  CommandLine line = Line({"--n", "1", "--loud", "--listen=[::1]:7", "--n=2"});
  int n = 0, fd = -1;
  std::string address;
  line.Number("--n", 0, 9, &n);
  line.Address("--listen", &address);
  line.Descriptor("--in", &fd);
  EXPECT_TRUE(line.status().ok());
  EXPECT_EQ(n, 2);
  EXPECT_EQ(address, "[::1]:7");
  EXPECT_EQ(fd, -1) << "what is not there keeps what was";
  EXPECT_TRUE(line.Has("--loud"));
  EXPECT_FALSE(line.Has("--in"));
  std::string text = "otherwise";
  line.Text("--in", &text);
  EXPECT_EQ(text, "otherwise");
  Line({"--in="}).Text("--in", &text);
  EXPECT_EQ(text, "");
}

TEST(CommandLineTest, WhatCannotBeSplitIsNamed) {
  EXPECT_EQ(SplitError({"--lissen", "x"}), "unknown argument '--lissen'");
  EXPECT_EQ(SplitError({"--n", "1", "word"}), "unknown argument 'word'");
  EXPECT_EQ(SplitError({"--n"}), "--n needs a value");
  EXPECT_EQ(SplitError({"--loud=yes"}), "--loud takes no value");
  EXPECT_EQ(SplitError({"--"}, true), "no command after --");
  EXPECT_EQ(SplitError({"--", "ls"}), "unknown argument '--'");
}

TEST(CommandLineTest, WhatStandsBehindTwoDashesIsNotRead) {
  const auto line = CommandLine::Split(Sample(true), {"--n", "1", "--", "ls", "--n", "--help"});
  ASSERT_TRUE(line.ok()) << line.status();
  EXPECT_EQ(line->command(), (std::vector<std::string>{"ls", "--n", "--help"}));
  EXPECT_EQ(AnswerHelp(Sample(true), {"--", "ls", "--help"}), std::nullopt);
}

TEST(CommandLineTest, ValuesThatAreWrongAreNamed) {
  EXPECT_EQ(NumberError("x", 1, 5), "--n must be a number from 1 to 5, not 'x'");
  EXPECT_EQ(NumberError("0", 1, 5), "--n must be a number from 1 to 5, not '0'");
  EXPECT_EQ(NumberError("6", 1, 5), "--n must be a number from 1 to 5, not '6'");
  EXPECT_EQ(NumberError<int64_t>("9999999999999999999", 1, 5),
            "--n must be a number from 1 to 5, not "
            "'9999999999999999999'");
  EXPECT_EQ(NumberError("nan", 0.5, 2.0), "--n must be a number from 0.5 to 2, not 'nan'");

  for (const char* wrong : {"7", "h:", "h:x", ":1", "h:-1", "h:70000"}) {
    CommandLine line = Line({"--listen", wrong, "--n", "x"});
    std::string address = "before";
    int n = 0;
    line.Address("--listen", &address);
    line.Number("--n", 0, 9, &n);
    EXPECT_EQ(line.status().message(), std::string("--listen must be HOST:PORT, not '") + wrong + "'") << "the first";
    EXPECT_EQ(address, "before");
  }
  for (const char* wrong : {"x", "-1", ""}) {
    CommandLine line = Line({"--in", wrong});
    int fd = 5;
    line.Descriptor("--in", &fd);
    EXPECT_EQ(line.status().message(), std::string("--in must be the number of a descriptor, not '") + wrong + "'");
    EXPECT_EQ(fd, 5);
  }
  CommandLine line = Line({});
  line.Refuse("--in", "there");
  EXPECT_EQ(line.status().message(), "--in must be there");
}

TEST(CommandLineTest, HelpListsEveryOption) {
  EXPECT_EQ(HelpText(Sample()),
            "usage: sample [options]\n"
            "Shows.\n"
            "  --listen HOST:PORT  where\n"
            "  --n N               how many (3)\n"
            "  --in FD             from\n"
            "  --loud              say so\n"
            "  --version, --help\n");
}

// What is written to `fd` meanwhile.
template <typename Function>
std::string Written(int fd, Function function) {
  int ends[2];
  EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const int kept = fcntl(fd, F_DUPFD_CLOEXEC, 0);
  dup2(ends[1], fd);
  function();
  dup2(kept, fd);
  close(kept);
  close(ends[1]);
  char text[4096];
  const ssize_t n = read(ends[0], text, sizeof text);
  close(ends[0]);
  return std::string(text, n < 0 ? 0 : n);
}

TEST(CommandLineTest, HelpAndVersionGoToStdoutWhateverElseIsThere) {
  EXPECT_EQ(Written(STDOUT_FILENO,
                    [] {
                      EXPECT_EQ(AnswerHelp(Sample(), {"--lissen", "--help"}), 0);
                    }),
            HelpText(Sample()));
  EXPECT_EQ(Written(STDOUT_FILENO, [] { EXPECT_EQ(AnswerHelp(Sample(), {"--version"}), 0); }), "sample 1.2.3\n");
  EXPECT_EQ(AnswerHelp(Sample(), {"--n", "1"}), std::nullopt);
}

TEST(CommandLineTest, AUsageErrorGoesToStderrInALine) {
  const absl::Status wrong = absl::InvalidArgumentError("--n needs a value");
  EXPECT_EQ(Written(STDERR_FILENO, [&] { EXPECT_EQ(UsageError(Sample(), wrong), 2); }),
            "sample: --n needs a value; sample --help says what there is\n");
}

}  // namespace
}  // namespace farandole
