// farandole-perf: measures this installation on this machine.
#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "perf/control/control_load.h"
#include "perf/data/tune.h"

namespace farandole::perf {
namespace {

const char kUsage[] =
    "usage: farandole-perf control [options]\n"
    "  Opens the streams of many agents against a farandole-controller of its own, and announces the gradients of a\n"
    "  ResNet-50 for all their ranks; prints one figure a line.\n"
    "  --ranks N           64\n"
    "  --per-agent K       ranks behind each agent, 8\n"
    "  --steps N           2\n"
    "  --tensors N         of a step, at most 161\n"
    "  --skew N            tensors that a rank may be behind the first, 4\n"
    "  --hold-ms N         how long to idle after the steps, 0\n"
    "  --opening N         connections that are being opened at a time, 64\n"
    "  --controller PATH   the program; beside this one\n"
    "  --tls-cert FILE     with --tls-key FILE: TLS, with this certificate as the one that is trusted\n"
    "\n"
    "farandole-perf tune [options]\n"
    "  Measures the ways to execute collectives over TCP, over the loopback of this machine, and prints a table of "
    "the\n"
    "  quickest: what FARANDOLE_SCHEDULE_TABLE may name, on all ranks.\n"
    "  --out FILE          where to write it, too\n"
    "  --ranks LIST        numbers of members, rising, 2 to 64; 2,4\n"
    "  --bytes-max N       largest operand, 67108864\n"
    "  --rounds N          7\n";

std::string Beside(const std::string& program, const std::string& name) {
  const size_t slash = program.rfind('/');
  return slash == std::string::npos ? name : program.substr(0, slash + 1) + name;
}

bool Parse(const std::vector<std::string>& args, control::ControlLoadOptions* options) {
  for (size_t i = 0; i < args.size(); i += 2) {
    if (i + 1 == args.size()) return false;
    const std::string& value = args[i + 1];
    int* number = nullptr;
    if (args[i] == "--ranks") number = &options->ranks;
    if (args[i] == "--per-agent") number = &options->per_agent;
    if (args[i] == "--steps") number = &options->steps;
    if (args[i] == "--tensors") number = &options->tensors;
    if (args[i] == "--skew") number = &options->skew;
    if (args[i] == "--hold-ms") number = &options->hold_ms;
    if (args[i] == "--opening") number = &options->opening;
    if (number != nullptr) {
      if (!absl::SimpleAtoi(value, number) || *number < 0) return false;
    } else if (args[i] == "--controller") {
      options->controller = value;
    } else if (args[i] == "--tls-cert") {
      options->tls_cert = value;
    } else if (args[i] == "--tls-key") {
      options->tls_key = value;
    } else {
      return false;
    }
  }
  return options->ranks > 0 && options->per_agent > 0 && options->tensors > 0 && options->opening > 0 &&
         options->tls_cert.empty() == options->tls_key.empty();
}

bool ParseRanks(const std::string& list, std::vector<int>* ranks) {
  ranks->clear();
  int before = 1;
  for (absl::string_view word : absl::StrSplit(list, ',')) {
    int number = 0;
    if (!absl::SimpleAtoi(word, &number) || number <= before || number > 64) return false;
    ranks->push_back(before = number);
  }
  return true;
}

bool Parse(const std::vector<std::string>& args, data::TuneOptions* options, std::string* out) {
  for (size_t i = 0; i < args.size(); i += 2) {
    if (i + 1 == args.size()) return false;
    const std::string& value = args[i + 1];
    bool read = false;
    if (args[i] == "--ranks") read = ParseRanks(value, &options->ranks);
    if (args[i] == "--bytes-max") read = absl::SimpleAtoi(value, &options->bytes_max) && options->bytes_max >= 1024;
    if (args[i] == "--rounds") read = absl::SimpleAtoi(value, &options->rounds) && options->rounds > 0;
    if (args[i] == "--out") read = !(*out = value).empty();
    if (!read) return false;
  }
  return true;
}

int Usage() {
  std::fputs(kUsage, stderr);
  return 2;
}

int Failed(const absl::Status& status) {
  std::fprintf(stderr, "farandole-perf: %s\n", std::string(status.message()).c_str());
  return 1;
}

int RunTune(const std::vector<std::string>& args) {
  data::TuneOptions options;
  std::string out;
  if (!Parse(args, &options, &out)) return Usage();
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

int Main(const std::vector<std::string>& args) {
  if (args.size() >= 2 && args[1] == "tune") return RunTune({args.begin() + 2, args.end()});
  control::ControlLoadOptions options;
  options.controller = Beside(args[0], "farandole-controller");
  if (args.size() < 2 || args[1] != "control" || !Parse({args.begin() + 2, args.end()}, &options)) return Usage();
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

}  // namespace
}  // namespace farandole::perf

int main(int argc, char** argv) { return farandole::perf::Main({argv, argv + argc}); }
