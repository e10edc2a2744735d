#include "worker/shm/shm_setup.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "worker/os/cpu_budget.h"

namespace farandole::worker::shm {
namespace {

absl::StatusOr<ShmSegment> GetAndMap(const collective::Group& group, collective::Bootstrap* bootstrap,
                                     const ShmSegment::Sizes& sizes) {
  absl::StatusOr<UniqueFd> fd = bootstrap->Segment(absl::StrCat("shm/", group.key), ShmSegment::TotalBytes(sizes));
  if (!fd.ok()) return fd.status();
  absl::StatusOr<ShmSegment> segment = ShmSegment::Map(*std::move(fd), sizes);
  if (!segment.ok()) return segment.status();
  segment->KeepNear(group.position);
  const os::CpuBudget budget = os::ReadCpuBudget();
  ShmControl& own = segment->control(group.position);
  own.affinity = budget.affinity;
  own.quota_cpus = budget.quota_cpus;
  return segment;
}

}  // namespace

absl::StatusOr<ShmSegment> SetUpShmSegment(const collective::Group& group, collective::Bootstrap* bootstrap,
                                           const ShmSegment::Sizes& sizes) {
  absl::StatusOr<ShmSegment> segment = GetAndMap(group, bootstrap, sizes);
  const auto key = [&](size_t position) { return absl::StrCat(group.key, "/shm/", position); };
  const std::string good = absl::StrCat("ok ", sizes.ranks, " ", sizes.chunk_bytes);
  const std::string said = segment.ok() ? good : std::string(segment.status().message());
  if (absl::Status s = bootstrap->Put(key(group.position), said); !s.ok()) return s;

  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(group.setup_timeout_ms);
  absl::Status verdict;
  for (size_t other = 0; other < group.members.size(); ++other) {
    const int64_t left_ms = std::max<int64_t>(1, deadline.MsSince(Clock::Monotonic().Now()));
    const absl::StatusOr<std::string> answer = static_cast<int>(other) == group.position
                                                   ? absl::StatusOr<std::string>(said)
                                                   : bootstrap->Get(key(other), static_cast<uint32_t>(left_ms));
    if (!answer.ok()) return answer.status();
    if (*answer == good || !verdict.ok()) continue;
    verdict = absl::UnavailableError(
        absl::StrCat("shared memory of ", Describe(group.members[other]), ": ",
                     absl::StartsWith(*answer, "ok ") ? "it wants other sizes than the others" : *answer));
  }
  if (!verdict.ok()) return verdict;
  return segment;
}

double CpusOfAll(const ShmSegment& segment) {
  cpu_set_t all;
  CPU_ZERO(&all);
  double quota = 0;
  for (int rank = 0; rank < segment.sizes().ranks; ++rank) {
    const ShmControl& control = segment.control(rank);
    CPU_OR(&all, &all, &control.affinity);
    if (control.quota_cpus > 0 && (quota == 0 || control.quota_cpus < quota)) quota = control.quota_cpus;
  }
  const double cpus = CPU_COUNT(&all);
  return quota > 0 ? std::min(quota, cpus) : cpus;
}

}  // namespace farandole::worker::shm
