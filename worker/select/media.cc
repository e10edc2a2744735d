#include "worker/select/media.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "worker/collective/blocking_adapter.h"
#include "worker/collective/lone_communicator.h"
#include "worker/hier/hierarchical_communicator.h"
#include "worker/select/selecting_communicator.h"
#include "worker/select/selector.h"
#include "worker/select/transports.h"
#include "worker/shm/shared_memory.h"
#include "worker/shm/shm_communicator.h"
#include "worker/staging/staged_communicator.h"

namespace farandole::worker::select {
namespace {

template <typename Blocking>
Built Adapted(absl::StatusOr<std::unique_ptr<Blocking>> medium, const std::string& why_not_quicker = "") {
  if (!medium.ok()) return medium.status();
  return std::make_unique<collective::BlockingAdapter>(*std::move(medium), why_not_quicker);
}

Built MakeLone(const collective::Group& group, collective::Bootstrap* bootstrap, device::Device* device) {
  return std::make_unique<collective::BlockingAdapter>(std::make_unique<collective::LoneCommunicator>());
}

Built MakeShm(const collective::Group& group, collective::Bootstrap* bootstrap, device::Device* device) {
  shm::ShmOptions options;
  options.memory = &shm::SharedMemory::Process();
  return Adapted(shm::ShmCommunicator::Create(group, bootstrap, options));
}

Built Scheduled(const collective::Group& group, collective::Bootstrap* bootstrap,
                const schedule::ScheduledOptions& options, transport::Transport* transport) {
  return Adapted(schedule::ScheduledCommunicator::Create(group, transport, bootstrap, options));
}

std::function<collective::Medium::Make> MakeTcp(const MediaResources& resources) {
  return [resources](const collective::Group& group, collective::Bootstrap* bootstrap, device::Device*) -> Built {
    const absl::StatusOr<transport::Transport*> tcp = resources.tcp();
    return tcp.ok() ? Scheduled(group, bootstrap, resources.scheduled, *tcp) : tcp.status();
  };
}

// It has queue pairs of its own to spread large messages over.
schedule::ScheduledOptions ForVerbs(schedule::ScheduledOptions options) {
  options.connections = 1;
  return options;
}

std::function<collective::Medium::Make> MakeVerbs(const MediaResources& resources) {
  return [resources](const collective::Group& group, collective::Bootstrap* bootstrap, device::Device*) -> Built {
    return OverVerbs(group, bootstrap, "verbs", resources.verbs(), [&](transport::Transport* verbs) {
      return Scheduled(group, bootstrap, ForVerbs(resources.scheduled), verbs);
    });
  };
}

Built Hierarchical(const collective::Group& group, collective::Bootstrap* bootstrap,
                   const schedule::ScheduledOptions& options, transport::Transport* transport,
                   const std::string& why_not_quicker = "") {
  hier::HierarchicalOptions both;
  both.scheduled = options;
  return Adapted(hier::HierarchicalCommunicator::Create(group, transport, bootstrap, both), why_not_quicker);
}

std::function<collective::Medium::Make> MakeHier(const MediaResources& resources) {
  return [resources](const collective::Group& group, collective::Bootstrap* bootstrap, device::Device*) -> Built {
    Built over_verbs = OverVerbs(group, bootstrap, "hier/verbs", resources.verbs(), [&](transport::Transport* verbs) {
      return Hierarchical(group, bootstrap, ForVerbs(resources.scheduled), verbs);
    });
    if (!absl::IsUnavailable(over_verbs.status())) return over_verbs;
    const absl::StatusOr<transport::Transport*> tcp = resources.tcp();
    if (!tcp.ok()) return over_verbs.status();
    // What the members have told each other stays under the other key.
    collective::Group over_tcp = group;
    over_tcp.key += ".tcp";
    return Hierarchical(over_tcp, bootstrap, resources.scheduled, *tcp,
                        absl::StrCat("not verbs: ", over_verbs.status().message()));
  };
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
  const std::vector<DeviceKind> host = {DeviceKind::kHost};
  const std::vector<collective::Medium> of_host = {{"lone", host, nullptr, MakeLone},
                                                   {"shm", host, nullptr, MakeShm},
                                                   {"hier", host, nullptr, MakeHier(resources)},
                                                   {"verbs", host, nullptr, MakeVerbs(resources)},
                                                   {"tcp", host, nullptr, MakeTcp(resources)}};
  std::vector<collective::Medium> all = of_host;
  all.push_back(Nccl(resources));
  all.push_back(Staged(of_host, resources));
  return all;
}

}  // namespace farandole::worker::select
