#include "worker/hier/hierarchical_setup.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/clock.h"
#include "worker/collective/lone_communicator.h"

namespace farandole::worker::hier {
namespace {

// Answers of hosts, and the verdict.
constexpr char kGood[] = "ok";
constexpr char kRefused[] = "refused ";
constexpr char kFailed[] = "failed ";

uint32_t LeftMs(TimePoint deadline) {
  return static_cast<uint32_t>(std::max<int64_t>(1, deadline.MsSince(Clock::Monotonic().Now())));
}

std::string Answer(const absl::Status& status) {
  if (status.ok()) return kGood;
  return absl::StrCat(absl::IsUnavailable(status) ? kRefused : kFailed, status.message());
}

// What position 0 makes of the answers of all hosts. Not OK: one did not come.
absl::StatusOr<std::string> Judge(const collective::Group& group, const collective::HostMap& map,
                                  collective::Bootstrap* bootstrap, TimePoint deadline) {
  std::string verdict = kGood;
  for (int host = 0; host < map.hosts(); ++host) {
    absl::StatusOr<std::string> answer = bootstrap->Get(absl::StrCat(group.key, "/hier/", host), LeftMs(deadline));
    if (absl::IsDeadlineExceeded(answer.status())) {
      return absl::DeadlineExceededError(absl::StrCat("nothing was heard of ",
                                                      Describe(group.members[map.members(host)[0]]), " within ",
                                                      group.setup_timeout_ms, " ms"));
    }
    if (!answer.ok()) return answer.status();
    if (verdict == kGood) verdict = *answer;
  }
  return verdict;
}

absl::Status Agree(const collective::Group& group, const collective::HostMap& map, const absl::Status& local,
                   collective::Bootstrap* bootstrap, TimePoint deadline) {
  const int host = map.host_of(group.position);
  if (map.members(host)[0] == group.position) {
    const absl::Status put = bootstrap->Put(absl::StrCat(group.key, "/hier/", host), Answer(local));
    if (!put.ok()) return put;
  }
  const std::string key = absl::StrCat(group.key, "/hier/verdict");
  if (group.position == 0) {
    const absl::StatusOr<std::string> judged = Judge(group, map, bootstrap, deadline);
    const absl::Status put = bootstrap->Put(key, judged.ok() ? *judged : Answer(judged.status()));
    if (!judged.ok()) return judged.status();
    if (!put.ok()) return put;
  }
  const absl::StatusOr<std::string> verdict = bootstrap->Get(key, LeftMs(deadline));
  if (!verdict.ok()) return verdict.status();
  if (*verdict == kGood) return absl::OkStatus();
  if (absl::StartsWith(*verdict, kRefused)) return absl::UnavailableError(absl::StripPrefix(*verdict, kRefused));
  return absl::FailedPreconditionError(absl::StripPrefix(*verdict, kFailed));
}

absl::StatusOr<std::unique_ptr<collective::Communicator>> ConnectAcross(collective::Group across,
                                                                        transport::Transport* transport,
                                                                        collective::Bootstrap* bootstrap,
                                                                        TimePoint deadline,
                                                                        const schedule::ScheduledOptions& options) {
  if (across.members.size() == 1) return std::make_unique<collective::LoneCommunicator>();
  across.setup_timeout_ms = LeftMs(deadline);
  absl::StatusOr<std::unique_ptr<schedule::ScheduledCommunicator>> made =
      schedule::ScheduledCommunicator::Create(across, transport, bootstrap, options);
  // To the selector UNAVAILABLE is an answer that all members have.
  if (absl::IsUnavailable(made.status())) return absl::FailedPreconditionError(made.status().message());
  if (!made.ok()) return made.status();
  return *std::move(made);
}

}  // namespace

absl::StatusOr<HierarchicalLayers> SetUpLayers(const collective::Group& group, const collective::HostMap& map,
                                               transport::Transport* transport, collective::Bootstrap* bootstrap,
                                               const HierarchicalOptions& options) {
  const TimePoint deadline = Clock::Monotonic().Now().PlusMs(group.setup_timeout_ms);
  const collective::Group local = map.Local(group);
  HierarchicalLayers layers;
  absl::Status status;
  if (local.members.size() == 1) {
    layers.local = std::make_unique<collective::LoneCommunicator>();
  } else {
    absl::StatusOr<std::unique_ptr<shm::ShmCommunicator>> shm =
        shm::ShmCommunicator::Create(local, bootstrap, options.shm);
    status = shm.status();
    if (shm.ok()) {
      layers.shm = shm->get();
      layers.local = *std::move(shm);
    }
  }
  const absl::Status agreed = Agree(group, map, status, bootstrap, deadline);
  if (!status.ok() && !absl::IsUnavailable(status)) return status;
  if (!agreed.ok()) return agreed;
  if (!map.even() && map.local_of(group.position) != 0) return layers;
  absl::StatusOr<std::unique_ptr<collective::Communicator>> across =
      ConnectAcross(map.Across(group), transport, bootstrap, deadline, options.scheduled);
  if (!across.ok()) return across.status();
  layers.across = *std::move(across);
  return layers;
}

}  // namespace farandole::worker::hier
