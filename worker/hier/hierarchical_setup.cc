#include "worker/hier/hierarchical_setup.h"

#include <utility>
#include <vector>

#include "base/clock.h"
#include "worker/collective/agreement.h"
#include "worker/collective/lone_communicator.h"

namespace farandole::worker::hier {
namespace {

absl::StatusOr<std::unique_ptr<collective::BlockingCommunicator>> ConnectAcross(
    collective::Group across, transport::Transport* transport, collective::Bootstrap* bootstrap, TimePoint deadline,
    const schedule::ScheduledOptions& options) {
  if (across.members.size() == 1) return std::make_unique<collective::LoneCommunicator>();
  across.setup_timeout_ms = collective::LeftMs(deadline);
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
  std::vector<int> leaders;
  for (int host = 0; host < map.hosts(); ++host) leaders.push_back(map.members(host)[0]);
  const absl::Status agreed = collective::Agree(group, "hier", leaders, {status}, bootstrap, deadline);
  if (!status.ok() && !absl::IsUnavailable(status)) return status;
  if (!agreed.ok()) return agreed;
  // The leader has said that there is memory.
  if (!status.ok()) return absl::FailedPreconditionError(status.message());
  if (!map.even() && map.local_of(group.position) != 0) return layers;
  absl::StatusOr<std::unique_ptr<collective::BlockingCommunicator>> across =
      ConnectAcross(map.Across(group), transport, bootstrap, deadline, options.scheduled);
  if (!across.ok()) return across.status();
  layers.across = *std::move(across);
  return layers;
}

}  // namespace farandole::worker::hier
