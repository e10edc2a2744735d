#include "perf/data/tune.h"

#include <cmath>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "perf/data/schedule_times.h"
#include "transport/verbs/transport.h"
#include "worker/config.h"

namespace farandole::perf::data {
namespace {

constexpr int64_t kBytesMin = 1024;
constexpr double kQuicker = 0.95;

OpKind KindOf(worker::schedule::ScheduledOp op) {
  switch (op) {
    case worker::schedule::ScheduledOp::kReducescatter:
      return OpKind::kReducescatter;
    case worker::schedule::ScheduledOp::kAllgather:
      return OpKind::kAllgather;
    default:
      return OpKind::kAllreduce;
  }
}

// One for each schedule that the operation can take.
std::vector<worker::schedule::Algorithm> CandidatesOf(worker::schedule::ScheduledOp op,
                                                      std::vector<ScheduleCandidate>* candidates) {
  std::vector<worker::schedule::Algorithm> algorithms;
  for (const worker::schedule::Algorithm algorithm :
       {worker::schedule::Algorithm::kExchange, worker::schedule::Algorithm::kDirect,
        worker::schedule::Algorithm::kDoubling, worker::schedule::Algorithm::kHalving,
        worker::schedule::Algorithm::kRing}) {
    const worker::schedule::ScheduleRow always{
        op, 0, worker::schedule::ScheduleTable::kAnyBytes, 1, worker::schedule::ScheduleTable::kAnyMembers, algorithm};
    const auto table = worker::schedule::ScheduleTable::Parse(worker::schedule::ToString(always), "candidate");
    if (!table.ok()) continue;
    algorithms.push_back(algorithm);
    candidates->emplace_back();
    candidates->back().name = Name(algorithm);
    candidates->back().options.table = *table;
  }
  return algorithms;
}

void AppendTimes(worker::schedule::ScheduledOp op, int ranks, const std::vector<int64_t>& sizes,
                 const std::vector<ScheduleCandidate>& candidates, const std::vector<std::vector<double>>& us,
                 std::string* text) {
  absl::StrAppendFormat(text, "#\n# %s, %d members, us of the slowest:\n# %12s", Name(op), ranks, "bytes");
  for (const ScheduleCandidate& candidate : candidates) absl::StrAppendFormat(text, " %10s", candidate.name);
  for (size_t s = 0; s < sizes.size(); ++s) {
    absl::StrAppendFormat(text, "\n# %12d", sizes[s]);
    for (const std::vector<double>& of_candidate : us) absl::StrAppendFormat(text, " %10.1f", of_candidate[s]);
  }
  text->push_back('\n');
}

}  // namespace

std::vector<worker::schedule::ScheduleRow> QuickestRows(worker::schedule::ScheduledOp op, int members_min,
                                                        int members_max, const std::vector<int64_t>& sizes,
                                                        const std::vector<worker::schedule::Algorithm>& algorithms,
                                                        const std::vector<std::vector<double>>& us) {
  std::vector<worker::schedule::ScheduleRow> rows;
  size_t chosen = 0;
  for (size_t s = 0; s < sizes.size(); ++s) {
    size_t quickest = 0;
    for (size_t a = 1; a < algorithms.size(); ++a) {
      if (us[a][s] < us[quickest][s]) quickest = a;
    }
    if (s > 0 && us[quickest][s] >= kQuicker * us[chosen][s]) quickest = chosen;
    if (s > 0 && quickest == chosen) continue;
    chosen = quickest;
    int64_t from = 0;
    if (s > 0) {
      // Between two sizes that were measured, their geometric mean.
      const double between = std::sqrt(static_cast<double>(sizes[s - 1]) * static_cast<double>(sizes[s]));
      rows.back().bytes_max = static_cast<int64_t>(between);
      from = rows.back().bytes_max + 1;
    }
    rows.push_back(
        {op, from, worker::schedule::ScheduleTable::kAnyBytes, members_min, members_max, algorithms[chosen]});
  }
  return rows;
}

absl::StatusOr<std::string> Tune(const TuneOptions& options) {
  ScheduleTimesOptions times;
  times.rounds = options.rounds;
  const bool verbs = options.transport == "verbs";
  if (verbs) {
    const auto verbs_options = worker::ReadVerbsOptions(worker::ProcessEnvironment());
    if (!verbs_options.ok()) return verbs_options.status();
    times.make_transport = [verbs_options = *verbs_options] {
      return std::make_unique<transport::verbs::VerbsTransport>(verbs_options);
    };
  }
  for (int64_t bytes = kBytesMin; bytes <= options.bytes_max; bytes *= 4) times.sizes.push_back(bytes);
  std::string measured =
      absl::StrCat("# farandole-perf tune, over ", verbs ? "RDMA within" : "loopback of", " this machine, medians of ",
                   options.rounds, " rounds; members: ", absl::StrJoin(options.ranks, ", "), "\n");
  std::string rows;
  for (const worker::schedule::ScheduledOp op :
       {worker::schedule::ScheduledOp::kAllreduce, worker::schedule::ScheduledOp::kReducescatter,
        worker::schedule::ScheduledOp::kAllgather}) {
    std::vector<ScheduleCandidate> candidates;
    const std::vector<worker::schedule::Algorithm> algorithms = CandidatesOf(op, &candidates);
    int members_min = 1;
    for (const int ranks : options.ranks) {
      times.ranks = ranks;
      const auto us = MeasureSchedules(KindOf(op), candidates, times);
      if (!us.ok()) return us.status();
      AppendTimes(op, ranks, times.sizes, candidates, *us, &measured);
      for (const worker::schedule::ScheduleRow& row :
           QuickestRows(op, members_min, ranks, times.sizes, algorithms, *us)) {
        absl::StrAppend(&rows, worker::schedule::ToString(row), "\n");
      }
      members_min = ranks + 1;
    }
  }
  return absl::StrCat(measured, "#\n", worker::schedule::ScheduleTable::Heading(), "\n", rows);
}

}  // namespace farandole::perf::data
