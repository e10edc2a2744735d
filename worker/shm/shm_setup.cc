#include "worker/shm/shm_setup.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "worker/collective/agreement.h"
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
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(group.setup_timeout_ms);
  absl::StatusOr<ShmSegment> segment = GetAndMap(group, bootstrap, sizes);
  const std::string why(segment.status().message());
  const std::string who = Describe(group.members[group.position]);
  const collective::Say say = {
      segment.ok() ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("shared memory of ", who, ": ", why)),
      absl::StrCat("shared memory of ", sizes.ranks, " ranks with chunks of ", sizes.chunk_bytes, " bytes")};
  const absl::Status agreed = collective::Agree(group, "shm", say, bootstrap, deadline);
  if (!agreed.ok()) return agreed;
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
