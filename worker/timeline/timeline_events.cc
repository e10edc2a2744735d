#include "worker/timeline/timeline_events.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace farandole::worker::timeline {
namespace {

// When each rank was ready for tensor `t`, in microseconds of the timeline; the writing rank included.
struct Readiness {
  Rank rank;
  int64_t ts_us;
};

std::vector<Readiness> ReadyTimes(const BatchTrace& batch, size_t t, Rank self,
                                  const std::vector<std::vector<uint64_t>>& ready_us, int64_t start_ns) {
  std::vector<Readiness> times;
  const int64_t end_us = (batch.end_ns - start_ns) / 1000;
  for (size_t r = 0; r < ready_us.size(); ++r) {
    if (Rank(static_cast<int32_t>(r)) == self || t >= ready_us[r].size()) continue;
    // A rank that was ready before the timeline began shows up at its begin.
    const int64_t before = static_cast<int64_t>(std::min<uint64_t>(ready_us[r][t], end_us));
    times.push_back({Rank(static_cast<int32_t>(r)), end_us - before});
  }
  times.push_back({self, std::max<int64_t>(0, (batch.tensors[t].ready_ns - start_ns) / 1000)});
  std::stable_sort(times.begin(), times.end(),
                   [](const Readiness& a, const Readiness& b) { return a.ts_us < b.ts_us; });
  return times;
}

}  // namespace

void WriteBatch(const BatchTrace& batch, Rank self, const std::vector<std::vector<uint64_t>>& ready_us,
                int64_t start_ns, TimelineFile* file) {
  const auto at = [start_ns](int64_t ns) { return std::max<int64_t>(0, (ns - start_ns) / 1000); };
  const int64_t begin_us = at(batch.begin_ns);
  for (size_t t = 0; t < batch.tensors.size(); ++t) {
    const BatchTrace::Tensor& tensor = batch.tensors[t];
    const std::vector<Readiness> times = ReadyTimes(batch, t, self, ready_us, start_ns);
    const int64_t first_us = std::min(times.front().ts_us, begin_us);
    // In a replay this rank waits for the last one inside the collective.
    const int64_t ready_everywhere_us =
        batch.replayed ? std::min(times.back().ts_us, at(batch.end_ns)) : std::min(at(batch.dispatched_ns), begin_us);
    const int64_t agreed_us = std::max(first_us, ready_everywhere_us);
    file->Begin(tensor.name, absl::StrCat("NEGOTIATE_", batch.operation), first_us);
    // A clock of ours and an end that is only nearly common: nobody is shown ready after all were.
    for (const Readiness& r : times) file->Ready(tensor.name, r.rank, std::min(r.ts_us, agreed_us));
    file->End(tensor.name, agreed_us, "");
    file->Begin(tensor.name, batch.operation, agreed_us);
    if (agreed_us < begin_us) {
      file->Begin(tensor.name, "QUEUE", agreed_us);
      file->End(tensor.name, begin_us, "");
    }
    for (const BatchTrace::Activity& activity : batch.activities) {
      file->Begin(tensor.name, activity.name, std::max(agreed_us, at(activity.begin_ns)));
      file->End(tensor.name, std::max(agreed_us, at(activity.end_ns)), "");
    }
    file->End(tensor.name, at(batch.end_ns), tensor.args);
  }
}

TraceRecord RecordOf(const BatchTrace& batch) {
  TraceRecord record;
  record.anchor = batch.instance.anchor;
  record.seq = batch.instance.seq;
  record.ready_us.reserve(batch.tensors.size());
  for (const BatchTrace::Tensor& tensor : batch.tensors) {
    record.ready_us.push_back(std::max<int64_t>(0, batch.end_ns - tensor.ready_ns) / 1000);
  }
  return record;
}

}  // namespace farandole::worker::timeline
