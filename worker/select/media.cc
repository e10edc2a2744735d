#include "worker/select/media.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "worker/collective/blocking_adapter.h"
#include "worker/collective/lone_communicator.h"
#include "worker/hier/hierarchical_communicator.h"
#include "worker/select/selecting_communicator.h"
#include "worker/select/selector.h"
#include "worker/shm/shared_memory.h"
#include "worker/shm/shm_communicator.h"
#include "worker/staging/staged_communicator.h"

namespace farandole::worker::select {
namespace {

using Built = absl::StatusOr<std::unique_ptr<collective::Communicator>>;

template <typename Blocking>
Built Adapted(absl::StatusOr<std::unique_ptr<Blocking>> medium) {
  if (!medium.ok()) return medium.status();
  return std::make_unique<collective::BlockingAdapter>(*std::move(medium));
}

Built MakeLone(const collective::Group& group, collective::Bootstrap* bootstrap, device::Device* device) {
  return std::make_unique<collective::BlockingAdapter>(std::make_unique<collective::LoneCommunicator>());
}

Built MakeShm(const collective::Group& group, collective::Bootstrap* bootstrap, device::Device* device) {
  shm::ShmOptions options;
  options.memory = &shm::SharedMemory::Process();
  return Adapted(shm::ShmCommunicator::Create(group, bootstrap, options));
}

collective::Medium Nccl(const MediaResources& resources) {
  const auto shared = [resources]() -> absl::StatusOr<nccl::Resources> {
    if (resources.nccl == nullptr) return absl::UnavailableError("this process has no libraries for GPUs");
    return resources.nccl();
  };
  const auto make = [shared](const collective::Group& group, collective::Bootstrap* bootstrap,
                             device::Device* device) -> Built {
    const absl::StatusOr<nccl::Resources> had = shared();
    if (!had.ok()) return absl::FailedPreconditionError(had.status().message());
    return nccl::NcclCommunicator::Create(group, bootstrap, static_cast<cuda::CudaDevice*>(device), *had);
  };
  return {"nccl", {DeviceKind::kAccelerator}, [shared] { return shared().status(); }, make};
}

collective::Medium Staged(std::vector<collective::Medium> host, const MediaResources& resources) {
  // One that is asked for by name binds the host's part only if it is one of the host's.
  const bool of_host = std::any_of(host.begin(), host.end(), [&resources](const collective::Medium& medium) {
    return medium.name == resources.override_name;
  });
  const std::string override_name = of_host ? resources.override_name : "auto";
  // It lives as long as the medium, which outlives its communicators.
  const auto media = std::make_shared<const std::vector<collective::Medium>>(std::move(host));
  const auto make = [media, override_name](const collective::Group& group, collective::Bootstrap* bootstrap,
                                           device::Device*) -> Built {
    collective::Group staged = group;
    staged.key += ".staged";
    auto on_host = std::make_unique<SelectingCommunicator>(
        staged, bootstrap, SelectingCommunicator::Choices{BuiltInSelectorTable(), *media, override_name});
    const absl::Status prepared = on_host->Prepare();
    if (!prepared.ok()) return prepared;
    return std::make_unique<staging::StagedCommunicator>(std::move(on_host), group.op_timeout_ms);
  };
  return {"staged", {DeviceKind::kAccelerator}, nullptr, make};
}

}  // namespace

std::vector<collective::Medium> BuiltInMedia(MediaResources resources) {
  const auto make_hier = [resources](const collective::Group& group, collective::Bootstrap* bootstrap,
                                     device::Device*) {
    hier::HierarchicalOptions options;
    options.scheduled = resources.scheduled;
    return Adapted(hier::HierarchicalCommunicator::Create(group, resources.tcp(), bootstrap, options));
  };
  const auto make_tcp = [resources](const collective::Group& group, collective::Bootstrap* bootstrap, device::Device*) {
    return Adapted(schedule::ScheduledCommunicator::Create(group, resources.tcp(), bootstrap, resources.scheduled));
  };
  const std::vector<DeviceKind> host = {DeviceKind::kHost};
  const std::vector<collective::Medium> of_host = {{"lone", host, nullptr, MakeLone},
                                                   {"shm", host, nullptr, MakeShm},
                                                   {"hier", host, nullptr, make_hier},
                                                   {"tcp", host, nullptr, make_tcp}};
  std::vector<collective::Medium> all = of_host;
  all.push_back(Nccl(resources));
  all.push_back(Staged(of_host, resources));
  return all;
}

}  // namespace farandole::worker::select
