#include "worker/select/communicator_factory.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "transport/tcp/transport.h"
#include "worker/collective/lone_communicator.h"
#include "worker/hier/hierarchical_communicator.h"
#include "worker/os/log.h"
#include "worker/schedule/scheduled_communicator.h"
#include "worker/select/selector.h"
#include "worker/shm/shared_memory.h"
#include "worker/shm/shm_communicator.h"

namespace farandole::worker::select {

CommunicatorFactory::CommunicatorFactory(std::string override_name, std::string data_address,
                                         schedule::ScheduledOptions scheduled)
    : override_name_(std::move(override_name)),
      data_address_(std::move(data_address)),
      scheduled_(std::move(scheduled)) {}

transport::Transport* CommunicatorFactory::Tcp() {
  if (tcp_ == nullptr) tcp_ = std::make_unique<transport::tcp::TcpTransport>(transport::tcp::TcpOptions{data_address_});
  return tcp_.get();
}

absl::StatusOr<std::unique_ptr<collective::Communicator>> CommunicatorFactory::Make(const collective::Group& group,
                                                                                    collective::Bootstrap* bootstrap) {
  CommunicatorBuilders builders;
  builders.lone = [](const collective::Group&) { return std::make_unique<collective::LoneCommunicator>(); };
  builders.shm = [bootstrap](const collective::Group& members) {
    shm::ShmOptions options;
    options.memory = &shm::SharedMemory::Process();
    return shm::ShmCommunicator::Create(members, bootstrap, options);
  };
  builders.hier = [this, bootstrap](const collective::Group& members) {
    hier::HierarchicalOptions options;
    options.scheduled = scheduled_;
    return hier::HierarchicalCommunicator::Create(members, Tcp(), bootstrap, options);
  };
  builders.tcp = [this, bootstrap](const collective::Group& members) {
    return schedule::ScheduledCommunicator::Create(members, Tcp(), bootstrap, scheduled_);
  };
  absl::StatusOr<Selection> selection = SelectCommunicator(group, override_name_, builders);
  if (!selection.ok()) return selection.status();
  os::Log(os::LogLevel::kDebug, absl::StrCat("process set ", group.process_set, " of ", group.members.size(),
                                             " members communicates by ", selection->reason));
  return std::move(selection->communicator);
}

}  // namespace farandole::worker::select
