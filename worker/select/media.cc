#include "worker/select/media.h"

#include <memory>
#include <utility>

#include "absl/status/statusor.h"
#include "worker/collective/blocking_adapter.h"
#include "worker/collective/lone_communicator.h"
#include "worker/hier/hierarchical_communicator.h"
#include "worker/shm/shared_memory.h"
#include "worker/shm/shm_communicator.h"

namespace farandole::worker::select {
namespace {

using Built = absl::StatusOr<std::unique_ptr<collective::Communicator>>;

template <typename Blocking>
Built Adapted(absl::StatusOr<std::unique_ptr<Blocking>> medium) {
  if (!medium.ok()) return medium.status();
  return std::make_unique<collective::BlockingAdapter>(*std::move(medium));
}

Built MakeLone(const collective::Group& group, collective::Bootstrap* bootstrap) {
  return std::make_unique<collective::BlockingAdapter>(std::make_unique<collective::LoneCommunicator>());
}

Built MakeShm(const collective::Group& group, collective::Bootstrap* bootstrap) {
  shm::ShmOptions options;
  options.memory = &shm::SharedMemory::Process();
  return Adapted(shm::ShmCommunicator::Create(group, bootstrap, options));
}

}  // namespace

std::vector<collective::Medium> BuiltInMedia(MediaResources resources) {
  const auto make_hier = [resources](const collective::Group& group, collective::Bootstrap* bootstrap) {
    hier::HierarchicalOptions options;
    options.scheduled = resources.scheduled;
    return Adapted(hier::HierarchicalCommunicator::Create(group, resources.tcp(), bootstrap, options));
  };
  const auto make_tcp = [resources](const collective::Group& group, collective::Bootstrap* bootstrap) {
    return Adapted(schedule::ScheduledCommunicator::Create(group, resources.tcp(), bootstrap, resources.scheduled));
  };
  const std::vector<DeviceKind> host = {DeviceKind::kHost};
  return {{"lone", host, nullptr, MakeLone},
          {"shm", host, nullptr, MakeShm},
          {"hier", host, nullptr, make_hier},
          {"tcp", host, nullptr, make_tcp}};
}

}  // namespace farandole::worker::select
