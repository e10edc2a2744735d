// farandole-perf: measures this installation on this machine.
#include <sys/resource.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/command_line.h"
#include "perf/control/control_load.h"
#include "perf/data/tune.h"
#include "proto/version.h"

namespace farandole::perf {
namespace {

// Of ranks, steps and what else is counted.
constexpr int kCountMax = 1000000;
constexpr int kMembersMax = 64;

const Program kPerf = {"farandole-perf",
                       kVersion,
                       "control [options]\n       farandole-perf tune [options]  (each says with --help how)",
                       "Measures this installation on this machine.\n",
                       {}};

const Program kControl = {
    "farandole-perf control",
    kVersion,
    "[options]",
    "Opens the streams of many agents against a farandole-controller of its own, and announces the gradients of a\n"
    "ResNet-50 for all their ranks; prints one figure a line.\n",
    {
        {"--ranks", "N", "(64)"},
        {"--per-agent", "K", "ranks behind each agent (8)"},
        {"--steps", "N", "(2)"},
        {"--tensors", "N", "of a step (161, which is the most)"},
        {"--skew", "N", "tensors that a rank may be behind the first (4)"},
        {"--hold-ms", "N", "how long to idle after the steps (0)"},
        {"--opening", "N", "connections that are being opened at a time (64)"},
        {"--controller", "PATH", "the program (beside this one)"},
        {"--tls-cert", "FILE", "with --tls-key: TLS, with this certificate as the one that is trusted"},
        {"--tls-key", "FILE", "its private key"},
    }};

const Program kTune = {
    "farandole-perf tune",
    kVersion,
    "[options]",
    "Measures the ways to execute collectives among processes of this machine, and prints a table of the quickest:\n"
    "what FARANDOLE_SCHEDULE_TABLE may name, on all ranks.\n",
    {
        {"--transport", "NAME", "tcp, over loopback; or verbs: RDMA, with the device that FARANDOLE_VERBS_* say (tcp)"},
        {"--out", "FILE", "where to write it, too"},
        {"--ranks", "LIST", "numbers of members, rising, 2 to 64 (2,4)"},
        {"--bytes-max", "N", "largest operand (67108864)"},
        {"--rounds", "N", "(7)"},
    }};

std::string Beside(const std::string& program, const std::string& name) {
  const size_t slash = program.rfind('/');
  return slash == std::string::npos ? name : program.substr(0, slash + 1) + name;
}

absl::Status Parse(const std::vector<std::string>& args, control::ControlLoadOptions* options) {
  absl::StatusOr<CommandLine> line = CommandLine::Split(kControl, args);
  if (!line.ok()) return line.status();
  line->Number("--ranks", 1, kCountMax, &options->ranks);
  line->Number("--per-agent", 1, kCountMax, &options->per_agent);
  line->Number("--steps", 0, kCountMax, &options->steps);
  line->Number("--tensors", 1, options->tensors, &options->tensors);
  line->Number("--skew", 0, kCountMax, &options->skew);
  line->Number("--hold-ms", 0, INT32_MAX, &options->hold_ms);
  line->Number("--opening", 1, kCountMax, &options->opening);
  line->Text("--controller", &options->controller);
  line->Text("--tls-cert", &options->tls_cert);
  line->Text("--tls-key", &options->tls_key);
  if (line->status().ok() && options->tls_cert.empty() != options->tls_key.empty()) {
    return absl::InvalidArgumentError("--tls-cert and --tls-key go together");
  }
  return line->status();
}

bool ParseRanks(const std::string& list, std::vector<int>* ranks) {
  ranks->clear();
  int before = 1;
  for (absl::string_view word : absl::StrSplit(list, ',')) {
    int number = 0;
    if (!absl::SimpleAtoi(word, &number) || number <= before || number > kMembersMax) return false;
    ranks->push_back(before = number);
  }
  return true;
}

absl::Status Parse(const std::vector<std::string>& args, data::TuneOptions* options, std::string* out) {
  absl::StatusOr<CommandLine> line = CommandLine::Split(kTune, args);
  if (!line.ok()) return line.status();
  std::string ranks;
  line->Text("--ranks", &ranks);
  if (line->Has("--ranks") && !ParseRanks(ranks, &options->ranks)) {
    line->Refuse("--ranks", absl::StrCat("rising numbers from 2 to ", kMembersMax, " with commas between them"));
  }
  line->Number<int64_t>("--bytes-max", 1024, int64_t{1} << 40, &options->bytes_max);
  line->Number("--rounds", 1, kCountMax, &options->rounds);
  line->Text("--transport", &options->transport);
  if (options->transport != "tcp" && options->transport != "verbs") line->Refuse("--transport", "tcp or verbs");
  line->Text("--out", out);
  return line->status();
}

int Failed(const absl::Status& status) {
  std::fprintf(stderr, "farandole-perf: %s\n", std::string(status.message()).c_str());
  return 1;
}

int RunTune(const std::vector<std::string>& args) {
  if (const auto code = AnswerHelp(kTune, args)) return *code;
  data::TuneOptions options;
  std::string out;
  const absl::Status parsed = Parse(args, &options, &out);
  if (!parsed.ok()) return UsageError(kTune, parsed);
  const auto table = data::Tune(options);
  if (!table.ok()) return Failed(table.status());
  std::fputs(table->c_str(), stdout);
  if (out.empty()) return 0;
  std::ofstream file(out);
  file << *table << std::flush;
  if (!file) return Failed(absl::UnavailableError(absl::StrCat("cannot write ", out)));
  std::fprintf(stderr, "farandole-perf: written to %s; use it with FARANDOLE_SCHEDULE_TABLE=%s\n", out.c_str(),
               out.c_str());
  return 0;
}

int RunControl(const std::string& program, const std::vector<std::string>& args) {
  if (const auto code = AnswerHelp(kControl, args)) return *code;
  control::ControlLoadOptions options;
  options.controller = Beside(program, "farandole-controller");
  const absl::Status parsed = Parse(args, &options);
  if (!parsed.ok()) return UsageError(kControl, parsed);
  // One descriptor for each agent, here and in the controller.
  rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const auto figures = control::ControlLoad::Run(options);
  if (!figures.ok()) return Failed(figures.status());
  for (const auto& [name, value] : *figures) std::printf("%-28s %.10g\n", name.c_str(), value);
  return 0;
}

int Main(const std::string& program, const std::vector<std::string>& words) {
  const std::string what = words.empty() ? "" : words[0];
  if (what == "tune") return RunTune({words.begin() + 1, words.end()});
  if (what == "control") return RunControl(program, {words.begin() + 1, words.end()});
  if (const auto code = AnswerHelp(kPerf, words)) return *code;
  return UsageError(kPerf, absl::InvalidArgumentError(what.empty() ? "say control or tune"
                                                                   : absl::StrCat("unknown argument '", what, "'")));
}

}  // namespace
}  // namespace farandole::perf

int main(int argc, char** argv) { return farandole::perf::Main(argv[0], {argv + 1, argv + argc}); }
