// Plays every *.txt beside this file and compares its output with what is written there. To write anew what the job
// does now, and look at the difference:
//   bazel run //tests/transcripts:transcripts_test -- --rewrite && git diff tests/transcripts

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include "tests/transcripts/play.h"

namespace farandole::transcripts {
namespace {

bool rewrite = false;

std::string Folder() {
  const char* workspace = std::getenv("BUILD_WORKSPACE_DIRECTORY");
  return absl::StrCat(workspace == nullptr ? "" : absl::StrCat(workspace, "/"), "tests/transcripts");
}

std::vector<std::string> Scripts() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(Folder())) {
    if (entry.path().extension() == ".txt") names.push_back(entry.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string Read(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

// The script with the output that it has now.
std::string Perform(const std::string& script) {
  Play play;
  std::vector<std::string> lines;
  for (absl::string_view line : absl::StrSplit(absl::StripSuffix(script, "\n"), '\n')) {
    if (absl::StartsWith(line, "  ")) continue;
    lines.emplace_back(line);
    if (!absl::StartsWith(line, "> ")) continue;
    const absl::Status status = play.Do(line.substr(2), &lines);
    EXPECT_TRUE(status.ok()) << status;
  }
  return absl::StrCat(absl::StrJoin(lines, "\n"), "\n");
}

// The first line in which they differ, with what leads there.
std::string Difference(const std::string& expected, const std::string& actual) {
  const std::vector<std::string> a = absl::StrSplit(expected, '\n');
  const std::vector<std::string> b = absl::StrSplit(actual, '\n');
  size_t i = 0;
  while (i < a.size() && i < b.size() && a[i] == b[i]) ++i;
  const size_t from = i > 3 ? i - 3 : 0;
  std::string text = absl::StrCat("line ", i + 1, ":\n");
  for (size_t k = from; k < i; ++k) absl::StrAppend(&text, "  ", a[k], "\n");
  absl::StrAppend(&text, "expected: ", i < a.size() ? a[i] : "<end>", "\nnow:      ", i < b.size() ? b[i] : "<end>");
  return text;
}

class TranscriptTest : public ::testing::TestWithParam<std::string> {};

TEST_P(TranscriptTest, GoesAsWritten) {
  const std::string path = absl::StrCat(Folder(), "/", GetParam(), ".txt");
  const std::string script = Read(path);
  ASSERT_FALSE(script.empty());
  const std::string now = Perform(script);
  if (rewrite) {
    std::ofstream(path) << now;
  } else {
    EXPECT_TRUE(script == now) << Difference(script, now);
  }
}

INSTANTIATE_TEST_SUITE_P(All, TranscriptTest, ::testing::ValuesIn(Scripts()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace farandole::transcripts

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  farandole::transcripts::rewrite = argc > 1 && std::string(argv[1]) == "--rewrite";
  return RUN_ALL_TESTS();
}
