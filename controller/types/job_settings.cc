#include "controller/types/job_settings.h"

#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "controller/types/rank_text.h"
#include "proto/job_variables.h"

namespace farandole::controller {
namespace {

constexpr double kSecondsMax = 1e9;
constexpr double kWindowMaxMs = 60000;
constexpr int64_t kSlotsMax = 65536;
constexpr int64_t kThresholdMaxBytes = int64_t{1} << 40;

// Reads variables one after the other and keeps the first error.
class Reader {
 public:
  explicit Reader(const VariableLookup& variables) : variables_(variables) {}

  // Null: not set, or empty.
  const char* Find(const JobVariable& variable) {
    for (const char* name : {variable.own, variable.horovod}) {
      const char* const value = name == nullptr ? nullptr : variables_(name);
      if (value == nullptr || *value == '\0') continue;
      name_ = name;
      return value;
    }
    return nullptr;
  }

  void Integer(const JobVariable& variable, int64_t max, const char* what, int64_t* out) {
    const char* const value = Find(variable);
    if (value == nullptr) return;
    int64_t number;
    if (!absl::SimpleAtoi(value, &number) || number < 0 || number > max) {
      return Refuse(value, absl::StrCat(what, " from 0 to ", max));
    }
    *out = number;
  }

  void Real(const JobVariable& variable, double max, const char* what, double* out) {
    const char* const value = Find(variable);
    if (value == nullptr) return;
    double number;
    if (!absl::SimpleAtod(value, &number) || !(number >= 0) || number > max) {
      return Refuse(value, absl::StrCat(what, " from 0 to ", max));
    }
    *out = number;
  }

  void Seconds(const JobVariable& variable, int64_t* out_ms) {
    double seconds = -1;
    Real(variable, kSecondsMax, "a number of seconds", &seconds);
    if (seconds >= 0) *out_ms = static_cast<int64_t>(seconds * 1000);
  }

  void Truth(const JobVariable& variable, bool* out) {
    const char* const value = Find(variable);
    if (value == nullptr) return;
    for (const auto& [yes, no] : {std::pair("1", "0"), {"true", "false"}, {"yes", "no"}, {"on", "off"}}) {
      const bool is = absl::EqualsIgnoreCase(value, yes);
      if (!is && !absl::EqualsIgnoreCase(value, no)) continue;
      *out = is;
      return;
    }
    Refuse(value, "1, true, yes or on, or 0, false, no or off");
  }

  const absl::Status& status() const { return status_; }

 private:
  void Refuse(const char* value, const std::string& allowed) {
    if (status_.ok()) status_ = absl::InvalidArgumentError(absl::StrCat(name_, "=\"", value, "\": expected ", allowed));
  }

  const VariableLookup& variables_;
  const char* name_ = "";
  absl::Status status_;
};

VariableLookup LookupIn(const std::vector<Variable>& said) {
  return [&said](const char* name) -> const char* {
    for (const Variable& variable : said) {
      if (variable.name == name) return variable.value.c_str();
    }
    return nullptr;
  };
}

bool Equal(const JobSettings& a, const JobSettings& b) {
  return a.fusion_threshold_bytes == b.fusion_threshold_bytes && a.batch_window_ms == b.batch_window_ms &&
         a.deterministic == b.deterministic && a.cache_capacity == b.cache_capacity &&
         a.watch.stall.warn_after_ms == b.watch.stall.warn_after_ms &&
         a.watch.stall.shutdown_after_ms == b.watch.stall.shutdown_after_ms &&
         a.watch.divergence_after_ms == b.watch.divergence_after_ms && a.checks_stalls == b.checks_stalls;
}

bool Alike(const std::vector<Variable>& a, const std::vector<Variable>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].name != b[i].name || a[i].value != b[i].value) return false;
  }
  return true;
}

}  // namespace

absl::Status ReadSettings(const VariableLookup& variables, JobSettings* settings) {
  JobSettings read = *settings;
  Reader reader(variables);
  reader.Integer(kFusionThreshold, kThresholdMaxBytes, "a number of bytes", &read.fusion_threshold_bytes);
  double window_ms = read.batch_window_ms;
  reader.Real(kCycleTime, kWindowMaxMs, "a number of milliseconds", &window_ms);
  read.batch_window_ms = static_cast<uint32_t>(std::ceil(window_ms));
  int64_t slots = read.cache_capacity;
  reader.Integer(kCacheCapacity, kSlotsMax, "a number of signatures", &slots);
  read.cache_capacity = static_cast<uint32_t>(slots);
  reader.Truth(kDeterministic, &read.deterministic);
  reader.Seconds(kStallCheckTime, &read.watch.stall.warn_after_ms);
  reader.Seconds(kStallShutdownTime, &read.watch.stall.shutdown_after_ms);
  reader.Seconds(kDivergence, &read.watch.divergence_after_ms);
  bool disabled = !read.checks_stalls;
  reader.Truth(kStallCheckDisable, &disabled);
  read.checks_stalls = !disabled;
  if (reader.status().ok()) *settings = read;
  return reader.status();
}

absl::Status ReadSettings(const std::vector<Variable>& said, JobSettings* settings) {
  return ReadSettings(LookupIn(said), settings);
}

std::vector<std::string> Disregarded(const JobSettings& used, const std::vector<const std::vector<Variable>*>& said) {
  std::vector<std::string> sentences;
  for (const JobVariable& variable : kJobVariables) {
    std::vector<Rank> ranks;
    for (size_t r = 1; r < said.size(); ++r) {
      if (said[r]->empty() || Alike(*said[r], *said[0])) continue;
      const VariableLookup all = LookupIn(*said[r]);
      JobSettings wanted = used;
      const absl::Status read = ReadSettings(
          [&](const char* name) {
            const absl::string_view n = name;
            return n == variable.own || (variable.horovod != nullptr && n == variable.horovod) ? all(name) : nullptr;
          },
          &wanted);
      if (read.ok() && !Equal(wanted, used)) ranks.push_back(Rank(static_cast<int32_t>(r)));
    }
    if (ranks.empty()) continue;
    sentences.push_back(absl::StrCat("what ", RankText(ranks), " set with ",
                                     variable.horovod == nullptr ? variable.own : variable.horovod,
                                     " is not done: for a job the values count that rank 0 has when init() runs, and "
                                     "those of the controller's environment where rank 0 has none"));
  }
  return sentences;
}

}  // namespace farandole::controller
