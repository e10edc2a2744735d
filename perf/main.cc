// farandole-perf: measures this installation on this machine.
#include <sys/resource.h>

#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "perf/control_load.h"

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
    "  --tls-cert FILE     with --tls-key FILE: TLS, with this certificate as the one that is trusted\n";

std::string Beside(const std::string& program, const std::string& name) {
  const size_t slash = program.rfind('/');
  return slash == std::string::npos ? name : program.substr(0, slash + 1) + name;
}

bool Parse(const std::vector<std::string>& args, ControlLoadOptions* options) {
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

int Main(const std::vector<std::string>& args) {
  ControlLoadOptions options;
  options.controller = Beside(args[0], "farandole-controller");
  if (args.size() < 2 || args[1] != "control" || !Parse({args.begin() + 2, args.end()}, &options)) {
    std::fputs(kUsage, stderr);
    return 2;
  }
  // One descriptor for each agent, here and in the controller.
  rlimit files;
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  const auto figures = ControlLoad::Run(options);
  if (!figures.ok()) {
    std::fprintf(stderr, "farandole-perf: %s\n", std::string(figures.status().message()).c_str());
    return 1;
  }
  for (const auto& [name, value] : *figures) std::printf("%-28s %.10g\n", name.c_str(), value);
  return 0;
}

}  // namespace
}  // namespace farandole::perf

int main(int argc, char** argv) { return farandole::perf::Main({argv, argv + argc}); }
